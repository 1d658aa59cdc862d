package provider

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

func nodeFacts() NodeFacts {
	c := Config{NodeName: "hpc", Cluster: "alps", WorkloadManager: "slurm", Partition: "gpu", Kubelet: KubeletConfig{Address: "10.0.0.5"}}
	c.setDefaults()
	return NodeFacts{
		Config: c, Manager: "slurm 22.05.8", Version: "v1.37.2-gangline", ClusterUID: "u", Now: testNow,
		Inventory: wlm.Inventory{Partitions: []wlm.Partition{
			{Name: "cpu", Default: true, Nodes: []wlm.Node{{Name: "c1", CPUs: 64}}},
			{Name: "gpu", Nodes: []wlm.Node{
				{Name: "g1", CPUs: 8, MemoryMiB: 1024, GPUs: 4, Usable: true},
				{Name: "g2", CPUs: 8, MemoryMiB: 1024, GPUs: 4, State: "drained"},
			}},
		}},
	}
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	return q.Value()
}

func TestNodeIsItsPartition(t *testing.T) {
	n := NodeObject(nodeFacts(), nil)
	assert.EqualValues(t, 16, quantity(n.Status.Capacity, corev1.ResourceCPU), "drained nodes count: they come back")
	assert.EqualValues(t, 2<<30, quantity(n.Status.Capacity, corev1.ResourceMemory))
	assert.EqualValues(t, 8, quantity(n.Status.Capacity, "nvidia.com/gpu"))
	assert.EqualValues(t, 80, quantity(n.Status.Allocatable, "nvidia.com/gpu"), "the workload manager is the queue")
	assert.EqualValues(t, 10_000, quantity(n.Status.Allocatable, corev1.ResourcePods))
	assert.Equal(t, "gpu", n.Labels[wellknown.LabelPartition])
	assert.Equal(t, "alps", n.Labels[wellknown.Cluster])
	assert.Equal(t, []corev1.Taint{NodeTaint()}, n.Spec.Taints)
	assert.Equal(t, "slurm://22.05.8", n.Status.NodeInfo.ContainerRuntimeVersion)
}

func TestNodeStaysReadyWhileTheWorkloadManagerIsAway(t *testing.T) {
	before := NodeObject(nodeFacts(), nil)
	f := nodeFacts()
	f.Unreachable, f.Now = errors.New("connection refused"), testNow.Add(time.Hour)
	n := NodeObject(f, before)
	ready, reachable := nodeCondition(n, corev1.NodeReady), nodeCondition(n, wellknown.ConditionReachable)
	assert.Equal(t, corev1.ConditionTrue, ready.Status)
	assert.Equal(t, testNow, ready.LastTransitionTime.Time, "nothing changed here")
	assert.Equal(t, corev1.ConditionFalse, reachable.Status)
	assert.Contains(t, reachable.Message, "connection refused")
	assert.Equal(t, f.Now, reachable.LastTransitionTime.Time)
}
