package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/translatetest"
)

func TestParseGres(t *testing.T) {
	for text, want := range map[string]Gres{
		"":                                      "",
		"(null)":                                "",
		"gpu:h100:8(S:0-1),nic:2":               "gpu:h100:8,nic:2",
		"gpu:h100:2(IDX:0-1),gpu:a100:1(IDX:5)": "gpu:a100:1,gpu:h100:2",
		"gpu:8(S:0,1)":                          "gpu:8",
		"gpu":                                   "gpu:1",
		"gpu:h100":                              "gpu:h100:1",
		"bandwidth:lustre:no_consume:4G":        "bandwidth:lustre:4294967296",
		"gpu:h100:0(IDX:N/A)":                   "",
		"shard:h100:32,gpu:1g.10gb:7":           "gpu:1g.10gb:7,shard:h100:32",
	} {
		assert.Equal(t, want, ParseGres(text), text)
	}
}

func TestGresAreCountedByKind(t *testing.T) {
	g := ParseGres("gpu:h100:8,gpu:a100:4,shard:h100:32")
	assert.Equal(t, 12, g.Count("gpu"))
	assert.Equal(t, 8, g.Count("gpu:h100"))
	assert.Equal(t, 32, g.Count("shard"))
	assert.Equal(t, 0, g.Count("gp"))
	assert.Equal(t, Gres("gpu:a100:4,gpu:h100:5,shard:h100:32"), g.Less("gpu:h100:3,nic:1"))
	types, others := g.Split()
	assert.Equal(t, Gres("a100:4,h100:8"), types)
	assert.Equal(t, Gres("shard:h100:32"), others)
}

func TestExtendedResourcesAreGenericResources(t *testing.T) {
	devices := DeviceResources{"amd.com/gpu": "gpu:mi300", "nvidia.com/gpu.shared": "shard"}
	pod := translatetest.MakePod("p").Request("amd.com/gpu", "2").Request("nvidia.com/gpu.shared", "4").Request("nvidia.com/gpu", "0").Obj()
	needs := PodResources(pod.Spec, "", devices)
	assert.Equal(t, Resources{CPUs: 1, GPUs: 2, Gres: "gpu:mi300:2,shard:4"}, needs)
	assert.Nil(t, Admit(pod, Site{Devices: devices}))
	assert.Nil(t, Admit(pod, Site{Devices: devices, Nodes: []Resources{{CPUs: 8, GPUs: 8, Gres: "gpu:mi300:8,shard:8"}}}))
	small := []Resources{{CPUs: 8, GPUs: 8, Gres: "gpu:h100:8,shard:8"}}
	assert.Equal(t, "DoesNotFit", Admit(pod, Site{Devices: devices, Nodes: small}).Reason, "they are of another type")
	assert.Equal(t, "UnsupportedResource", Admit(pod, Site{}).Reason, "nobody has said what they are")

	pod = translatetest.MakePod("p").Request("amd.com/gpu", "2").Request("nvidia.com/gpu", "1").Obj()
	assert.Contains(t, Admit(pod, Site{Devices: devices}).Message, "1 GPUs of any type beside those of a type (mi300:2)")
	own := DeviceResources{"nvidia.com/gpu": "gpu:a100"}
	pod = translatetest.MakePod("p").Request("nvidia.com/gpu", "3").Obj()
	assert.Equal(t, Resources{CPUs: 1, GPUs: 3, Gres: "gpu:a100:3"}, PodResources(pod.Spec, "", own), "the site's default type")
}

func TestWhatEveryNodeHasIsNotAskedFor(t *testing.T) {
	devices := DeviceResources{"rdma/hca_shared_devices_a": EveryNode}
	pod := translatetest.MakePod("p").Request("rdma/hca_shared_devices_a", "1").Obj()
	assert.Equal(t, Resources{CPUs: 1}, PodResources(pod.Spec, "", devices))
	assert.Nil(t, Admit(pod, Site{Devices: devices, Nodes: []Resources{{CPUs: 1}}}))
}

func TestProblemsOfAMapOfResources(t *testing.T) {
	assert.Empty(t, DeviceResources{"nvidia.com/mig-1g.10gb": "gpu:1g.10gb", "x.y/z": "nic", "rdma/hca": EveryNode}.Problems())
	for name, kind := range map[corev1.ResourceName]string{"a.b/c": "", "a.b/d": "gpu:a:b", "cpu": "gpu", "a.b/e": "--gres", "kubernetes.io/x": "gpu"} {
		assert.Len(t, DeviceResources{name: kind}.Problems(), 1, name)
	}
}
