package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

func busyFacts() NodeFacts {
	f := nodeFacts()
	f.Config.Resources = translate.DeviceResources{"amd.com/gpu": "gpu:mi300", "nvidia.com/gpu.shared": "shard", "rdma/hca": translate.EveryNode}
	f.Inventory.Partitions[1].Nodes = []wlm.Node{
		{
			Name: "g1", CPUs: 8, MemoryMiB: 1024, GPUs: 6, Gres: "gpu:h100:4,gpu:mi300:2,shard:32", Usable: true,
			Used: translate.Resources{CPUs: 5, MemoryMiB: 600, GPUs: 3, Gres: "gpu:h100:3"}, Features: []string{"ib", "old"}, Switch: "s0",
		},
		{Name: "g2", CPUs: 8, MemoryMiB: 1024, Features: []string{"ib", "no label!"}, Switch: "s1", Used: translate.Resources{CPUs: 8}},
	}
	return f
}

func TestCapacityCountsEveryKindOfDevice(t *testing.T) {
	n := NodeObject(busyFacts(), nil)
	assert.EqualValues(t, 6, quantity(n.Status.Capacity, "nvidia.com/gpu"), "of whatever type")
	assert.EqualValues(t, 2, quantity(n.Status.Capacity, "amd.com/gpu"))
	assert.Positive(t, quantity(n.Status.Capacity, "rdma/hca"), "the scheduler binds pods that ask for it")
	assert.EqualValues(t, 320, quantity(n.Status.Allocatable, "nvidia.com/gpu.shared"))
	assert.EqualValues(t, 8, quantity(n.Status.Capacity, corev1.ResourceCPU), "whoever uses them")
}

func TestCapacityWithoutWhatOthersUse(t *testing.T) {
	f := busyFacts()
	f.Config.CountOthers = true
	for sentence, c := range map[string]struct {
		ours       usage
		cpus, gpus int64
	}{
		"all of it is others'":                                     {nil, 3, 3},
		"a part of it is our own pods'":                            {usage{"g1": {CPUs: 2, GPUs: 1}}, 5, 4},
		"a job of ours began after the workload manager was asked": {usage{"g1": {CPUs: 7, GPUs: 4}}, 8, 6},
		"ours are elsewhere":                                       {usage{"x": {CPUs: 2}}, 3, 3},
	} {
		t.Run(sentence, func(t *testing.T) {
			f.Ours = c.ours
			n := NodeObject(f, nil)
			assert.Equal(t, c.cpus, quantity(n.Status.Capacity, corev1.ResourceCPU))
			assert.Equal(t, c.gpus, quantity(n.Status.Capacity, "nvidia.com/gpu"))
		})
	}
}

func TestLabelsTellWhatTheNodesAreLike(t *testing.T) {
	f := busyFacts()
	n := NodeObject(f, nil)
	for label, want := range map[string]string{
		wellknown.LabelGPUPrefix + "h100": "4", wellknown.LabelGPUPrefix + "mi300": "2",
		wellknown.LabelFeaturePrefix + "ib": "true", wellknown.LabelFeaturePrefix + "old": "some",
		wellknown.LabelSwitchPrefix + "s0": "1", wellknown.LabelSwitchPrefix + "s1": "1",
	} {
		assert.Equal(t, want, n.Labels[label], label)
	}
	assert.NotContains(t, n.Labels, "nvidia.com/gpu.product", "there are two")
	assert.NotContains(t, n.Labels, wellknown.LabelFeaturePrefix+"no label!")

	f.Inventory.Partitions[1].Nodes = []wlm.Node{{Name: "g1", CPUs: 8, GPUs: 2, Gres: "gpu:h100:2", Usable: true}}
	now := NodeObject(f, n)
	assert.Equal(t, "h100", now.Labels["nvidia.com/gpu.product"])
	assert.NotContains(t, now.Labels, wellknown.LabelGPUPrefix+"h100")
	assert.False(t, published(f.Config, n, now), "old labels have to go")
	f.Inventory = wlm.Inventory{}
	assert.Equal(t, "h100", NodeObject(f, now).Labels["nvidia.com/gpu.product"], "what is not known is as it was")
}
