package provider

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// NodeFacts is what the virtual node's object says.
type NodeFacts struct {
	Config    Config
	Manager   string // "slurm 22.05.8"
	Inventory wlm.Inventory
	// Unreachable is the last query's error, nil while the workload manager
	// answers.
	Unreachable error
	Version     string // the kubelet version shown, "v1.37.2-gangline"
	ClusterUID  types.UID
	Now         time.Time
}

// NodeObject builds the virtual node: capacity from the partition's total,
// whoever uses it, and allocatable times the queue factor, since the workload
// manager is the queue. Previous, if not nil, is the object before: times of
// transitions are kept from it.
//
// Ready stays true while the workload manager is away: a node that is not ready
// has its pods evicted, which would kill jobs that are in good health.
func NodeObject(f NodeFacts, previous *corev1.Node) *corev1.Node {
	capacity := Capacity(f.Config, f.Inventory)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: f.Config.NodeName,
			Labels: map[string]string{
				wellknown.LabelNodeType:          wellknown.LabelNodeTypeValue,
				corev1.LabelHostname:             f.Config.NodeName,
				corev1.LabelArchStable:           "amd64",
				corev1.LabelOSStable:             "linux",
				corev1.LabelNodeExcludeBalancers: "true",
				wellknown.LabelWorkloadManager:   f.Config.WorkloadManager,
				wellknown.Cluster:                f.Config.Cluster,
			},
		},
		Spec: corev1.NodeSpec{
			Taints:     []corev1.Taint{NodeTaint()},
			ProviderID: "gangline://" + f.Config.NodeName,
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: Allocatable(capacity, f.Config.QueueFactor),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: f.Config.Kubelet.Address},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{
				KubeletEndpoint: corev1.DaemonEndpoint{Port: f.Config.Kubelet.Port},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID:               string(f.ClusterUID),
				SystemUUID:              string(f.ClusterUID),
				BootID:                  string(f.ClusterUID),
				KubeletVersion:          f.Version,
				OperatingSystem:         "linux",
				Architecture:            "amd64",
				OSImage:                 "HPC nodes",
				KernelVersion:           "unknown",
				ContainerRuntimeVersion: containerRuntime(f.Manager),
			},
			Conditions: nodeConditions(f),
		},
	}
	if partition := partitionOf(f.Config, f.Inventory); partition != nil {
		node.Labels[wellknown.LabelPartition] = partition.Name
	}
	if previous != nil {
		if len(f.Inventory.Partitions) == 0 { // not known: as it was
			node.Status.Capacity, node.Status.Allocatable = previous.Status.Capacity, previous.Status.Allocatable
		}
		keepTransitions(node.Status.Conditions, previous.Status.Conditions)
	}
	return node
}

// NodeTaint keeps away the pods that did not ask for the HPC side.
func NodeTaint() corev1.Taint {
	return corev1.Taint{Key: wellknown.TaintKey, Value: wellknown.TaintValue, Effect: corev1.TaintEffectNoSchedule}
}

// partitionOf is the partition that the node stands for.
func partitionOf(c Config, inv wlm.Inventory) *wlm.Partition {
	i := slices.IndexFunc(inv.Partitions, func(p wlm.Partition) bool {
		return p.Name == c.Partition || (c.Partition == "" && p.Default)
	})
	if i < 0 {
		return nil
	}
	return &inv.Partitions[i]
}

// Capacity is the total of the node's partition.
func Capacity(c Config, inv wlm.Inventory) corev1.ResourceList {
	var cpus, memory, gpus int64
	if p := partitionOf(c, inv); p != nil {
		for _, n := range p.Nodes {
			cpus += int64(n.CPUs)
			memory += n.MemoryMiB
			gpus += int64(n.GPUs)
		}
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:                 *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory:              *resource.NewQuantity(memory<<20, resource.BinarySI),
		corev1.ResourcePods:                *resource.NewQuantity(int64(c.MaxPods), resource.DecimalSI),
		corev1.ResourceName(c.GPUResource): *resource.NewQuantity(gpus, resource.DecimalSI),
	}
}

// Allocatable is what the scheduler may bind: the capacity times the factor.
func Allocatable(capacity corev1.ResourceList, factor int) corev1.ResourceList {
	list := make(corev1.ResourceList, len(capacity))
	for name, q := range capacity {
		q = q.DeepCopy()
		q.Mul(int64(factor))
		list[name] = q
	}
	return list
}

func containerRuntime(manager string) string {
	name, version := manager, "unknown"
	for i, c := range manager {
		if c == ' ' {
			name, version = manager[:i], manager[i+1:]
			break
		}
	}
	return name + "://" + version
}

func nodeConditions(f NodeFacts) []corev1.NodeCondition {
	healthy := func(t corev1.NodeConditionType, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	reachable := corev1.NodeCondition{
		Type: wellknown.ConditionReachable, Status: corev1.ConditionTrue,
		Reason: "Answering", Message: f.Manager + " answers",
	}
	if f.Unreachable != nil {
		reachable.Status, reachable.Reason = corev1.ConditionFalse, "NotAnswering"
		reachable.Message = fmt.Sprintf("pods keep their state until it answers: %v", f.Unreachable)
	}
	conditions := []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "the virtual node is ready"},
		healthy(corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "memory is the HPC nodes' business"),
		healthy(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "disks are the HPC nodes' business"),
		healthy(corev1.NodePIDPressure, "KubeletHasSufficientPID", "processes are the HPC nodes' business"),
		healthy(corev1.NodeNetworkUnavailable, "RouteCreated", "pods use the HPC nodes' network"),
		reachable,
	}
	for i := range conditions {
		conditions[i].LastHeartbeatTime = metav1.NewTime(f.Now)
		conditions[i].LastTransitionTime = metav1.NewTime(f.Now)
	}
	return conditions
}

func keepTransitions(now, before []corev1.NodeCondition) {
	for i := range now {
		j := slices.IndexFunc(before, func(c corev1.NodeCondition) bool { return c.Type == now[i].Type })
		if j >= 0 && before[j].Status == now[i].Status {
			now[i].LastTransitionTime = before[j].LastTransitionTime
		}
	}
}
