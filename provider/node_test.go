package provider

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

func nodeFacts() NodeFacts {
	c := Config{NodeName: "hpc", Cluster: "alps", WorkloadManager: "slurm", Partition: "gpu", Kubelet: KubeletConfig{Address: "10.0.0.5"}}
	c.setDefaults()
	return NodeFacts{
		Config: c, Manager: "slurm 22.05.8", Version: "v0.1.0", ClusterUID: "u", Now: testNow,
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
	assert.EqualValues(t, 8, quantity(n.Status.Capacity, corev1.ResourceCPU), "drained nodes do not count until they are back")
	assert.EqualValues(t, 1<<30, quantity(n.Status.Capacity, corev1.ResourceMemory))
	assert.EqualValues(t, 4, quantity(n.Status.Capacity, "nvidia.com/gpu"))
	assert.EqualValues(t, 40, quantity(n.Status.Allocatable, "nvidia.com/gpu"), "the workload manager is the queue")
	assert.Contains(t, nodeCondition(n, wellknown.ConditionReachable).Message, "1 of 2 nodes of partition gpu take jobs")
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
	assert.Equal(t, []corev1.Taint{NodeTaint(), outageTaint()}, n.Spec.Taints, "new pods are kept away")
}

func TestNodeIsComplete(t *testing.T) {
	f := nodeFacts()
	f.Config.NodeLabels = map[string]string{"topology.kubernetes.io/zone": "alps", corev1.LabelHostname: "another"}
	n := NodeObject(f, nil)
	assert.Equal(t, "alps", n.Labels["topology.kubernetes.io/zone"])
	assert.Equal(t, "hpc", n.Labels[corev1.LabelHostname], "its own labels are not the configuration's")
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
		corev1.NodeNetworkUnavailable, wellknown.ConditionReachable,
	} {
		c := nodeCondition(n, kind)
		assert.NotEmpty(t, c.Status, kind)
		assert.NotEmpty(t, c.Reason, kind)
		assert.NotEmpty(t, c.Message, kind)
		assert.Equal(t, testNow, c.LastHeartbeatTime.Time, kind)
		assert.Equal(t, testNow, c.LastTransitionTime.Time, kind)
	}
	info := n.Status.NodeInfo
	for name, value := range map[string]string{
		"machineID": info.MachineID, "systemUUID": info.SystemUUID, "bootID": info.BootID, "kernelVersion": info.KernelVersion,
		"osImage": info.OSImage, "containerRuntimeVersion": info.ContainerRuntimeVersion, "kubeletVersion": info.KubeletVersion,
		"operatingSystem": info.OperatingSystem, "architecture": info.Architecture,
	} {
		assert.NotEmpty(t, value, name)
	}
	other := nodeFacts()
	other.Config.NodeName = "hpc2"
	assert.NotEqual(t, info.MachineID, NodeObject(other, nil).Status.NodeInfo.MachineID, "nodes of one cluster differ")
	assert.Equal(t, []string{"RestartAllContainersOnContainerExits"}, n.Status.DeclaredFeatures, "pods that need another are kept away by the scheduler")
}

func TestPublishedLooksAtWhatIsOurs(t *testing.T) {
	cases := map[string]struct {
		change    func(*corev1.Node)
		published bool
	}{
		"nothing":         {func(*corev1.Node) {}, true},
		"another's label": {func(n *corev1.Node) { n.Labels["a"] = "b" }, true},
		"another's condition": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Theirs"})
		}, true},
		"a heartbeat":             {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime.Time = testNow.Add(time.Hour) }, true},
		"a label of ours is gone": {func(n *corev1.Node) { delete(n.Labels, wellknown.LabelNodeType) }, false},
		"the network is said to be unavailable": {func(n *corev1.Node) {
			for i := range n.Status.Conditions {
				if n.Status.Conditions[i].Type == corev1.NodeNetworkUnavailable {
					n.Status.Conditions[i].Status = corev1.ConditionTrue
				}
			}
		}, false},
		"the capacity": {func(n *corev1.Node) { delete(n.Status.Capacity, corev1.ResourceCPU) }, false},
		"the port":     {func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port++ }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := NodeObject(nodeFacts(), nil)
			server := want.DeepCopy()
			c.change(server)
			assert.Equal(t, c.published, published(Config{GPUResource: "nvidia.com/gpu"}, server, want))
		})
	}
}

// TestTheKubeletsVersionIsOfItsLibraries: v0.N of them is Kubernetes v1.N.
func TestTheKubeletsVersionIsOfItsLibraries(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	assert.Contains(t, string(mod), "\tk8s.io/api v0."+strings.TrimPrefix(kubernetesVersion, "v1.")+"\n")
}
