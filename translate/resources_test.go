package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	. "github.com/gangline/gangline/translate/translatetest"
)

func TestPodResources(t *testing.T) {
	podLevel := func(requests, limits map[string]string) func(*corev1.PodSpec) {
		list := func(m map[string]string) corev1.ResourceList {
			l := corev1.ResourceList{}
			for name, q := range m {
				l[corev1.ResourceName(name)] = resource.MustParse(q)
			}
			return l
		}
		return func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
		}
	}
	for name, tc := range map[string]struct {
		pod  *PodBuilder
		gpu  corev1.ResourceName
		want Resources
	}{
		"nothing asked is one core and the partition's memory": {MakePod("p"), "", Resources{CPUs: 1}},
		"requests are rounded up": {
			MakePod("p").Request("cpu", "1001m").Request("memory", "1048577"), "", Resources{CPUs: 2, MemoryMiB: 2},
		},
		"containers are added": {
			MakePod("p").Request("cpu", "500m").Request("memory", "1Gi").Limit("nvidia.com/gpu", "1").
				Container("c").Request("cpu", "500m").Request("memory", "1Gi").Limit("nvidia.com/gpu", "2"),
			"", Resources{CPUs: 1, MemoryMiB: 2048, GPUs: 3},
		},
		"a limit counts where there is no request": {
			MakePod("p").Request("cpu", "1").Limit("cpu", "4").Limit("memory", "1Gi"), "", Resources{CPUs: 1, MemoryMiB: 1024},
		},
		"an init container counts if it is larger": {
			MakePod("p").Request("cpu", "1").InitContainer("i").Request("cpu", "4").Limit("memory", "1Mi"), "", Resources{CPUs: 4, MemoryMiB: 1},
		},
		"a sidecar is added": {
			MakePod("p").Request("cpu", "1").Sidecar("s").Request("cpu", "1").InitContainer("i").Request("cpu", "3"),
			"", Resources{CPUs: 4},
		},
		"what the pod requests is all it gets": {
			MakePod("p").Request("cpu", "1").Spec(podLevel(map[string]string{"cpu": "6"}, map[string]string{"cpu": "8"})),
			"", Resources{CPUs: 6},
		},
		"the pod's limit counts where no container requests": {
			MakePod("p").Spec(podLevel(nil, map[string]string{"cpu": "3", "memory": "1Gi"})), "", Resources{CPUs: 3, MemoryMiB: 1024},
		},
		"the pod's limit does not count where one does": {
			MakePod("p").Request("cpu", "2").Spec(podLevel(nil, map[string]string{"cpu": "8"})), "", Resources{CPUs: 2},
		},
		"overhead is not the HPC side's": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.Overhead = corev1.ResourceList{"cpu": resource.MustParse("9")} }),
			"", Resources{CPUs: 1},
		},
		"the site's GPU is counted, and no other": {
			MakePod("p").Limit("amd.com/gpu", "2").Limit("nvidia.com/gpu", "1"), "amd.com/gpu", Resources{CPUs: 1, GPUs: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := tc.pod.Obj()
			before := pod.DeepCopy()
			assert.Equal(t, tc.want, PodResources(pod.Spec, tc.gpu, nil))
			assert.Equal(t, before, pod, "the pod was changed")
		})
	}
}

func TestFits(t *testing.T) {
	nodes := []Resources{{CPUs: 4, MemoryMiB: 100, GPUs: 1}, {CPUs: 64, MemoryMiB: 10}}
	assert.True(t, Fits(Resources{CPUs: 4, MemoryMiB: 100, GPUs: 1}, nodes))
	assert.True(t, Fits(Resources{CPUs: 64}, nodes))
	assert.False(t, Fits(Resources{CPUs: 64, GPUs: 1}, nodes))
	assert.False(t, Fits(Resources{CPUs: 1, MemoryMiB: 101}, nodes))
	assert.False(t, Fits(Resources{}, nil))
}
