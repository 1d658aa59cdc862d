package provider

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/restartallcontainers"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// NodeFacts is what the virtual node's object says.
type NodeFacts struct {
	Config    Config
	Manager   string // "slurm 22.05.8"
	Inventory wlm.Inventory
	// Ours is what this node's own pods have of the inventory's nodes.
	Ours usage
	// Unreachable is the last query's error, nil while the workload manager
	// answers.
	Unreachable error
	Version     string // gangline-node's own, "v0.1.0"
	ClusterUID  types.UID
	Now         time.Time
}

// kubernetesVersion is that of the kubelet whose API the node serves. Tools compare it
// with the API server's, so the node's version begins with it.
const kubernetesVersion = "v1.37.2"

// NodeObject builds the virtual node: capacity from the partition's nodes that
// take jobs, whoever uses them, and allocatable times the queue factor, since
// the workload manager is the queue. Previous, if not nil, is the object before:
// times of transitions are kept from it.
//
// Ready stays true while the workload manager is away: a node that is not ready
// has its pods evicted, which would kill jobs that are in good health. A taint
// keeps new ones away.
func NodeObject(f NodeFacts, previous *corev1.Node) *corev1.Node {
	capacity := Capacity(f.Config, f.Inventory, f.Ours)
	id := nodeID(f)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        f.Config.NodeName,
			Labels:      nodeLabels(f.Config, f.Inventory),
			Annotations: map[string]string{wellknown.AnnotationNodeTaints: taintNames(configuredTaints(f.Config))},
		},
		Spec: corev1.NodeSpec{
			Taints:     nodeTaints(f.Config, f.Unreachable != nil),
			ProviderID: "gangline://" + f.Config.NodeName,
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: Allocatable(capacity, f.Config.QueueFactor),
			// What Kubernetes keeps pods away for unless a node says that it has it.
			DeclaredFeatures: []string{restartallcontainers.RestartAllContainersOnContainerExits},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: f.Config.Kubelet.Address},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{
				KubeletEndpoint: corev1.DaemonEndpoint{Port: f.Config.Kubelet.Port},
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID:               id,
				SystemUUID:              id,
				BootID:                  id, // it never boots
				KubeletVersion:          kubernetesVersion + "-gangline-" + f.Version,
				OperatingSystem:         "linux",
				Architecture:            f.Config.Architecture,
				OSImage:                 "HPC nodes",
				KernelVersion:           "unknown",
				ContainerRuntimeVersion: containerRuntime(f.Manager),
			},
			Conditions: nodeConditions(f),
		},
	}
	if previous != nil {
		if len(f.Inventory.Partitions) == 0 { // not known: as it was
			node.Status.Capacity, node.Status.Allocatable = previous.Status.Capacity, previous.Status.Allocatable
			if partition, known := previous.Labels[wellknown.LabelPartition]; known {
				node.Labels[wellknown.LabelPartition] = partition
			}
			for key, value := range previous.Labels {
				if isInventoryLabel(f.Config, key) {
					node.Labels[key] = value
				}
			}
		}
		keepTransitions(node.Status.Conditions, previous.Status.Conditions)
	}
	return node
}

// nodeLabels are the node's own labels and the configured ones.
func nodeLabels(c Config, inv wlm.Inventory) map[string]string {
	labels := map[string]string{
		wellknown.LabelNodeType:          wellknown.LabelNodeTypeValue,
		corev1.LabelHostname:             c.NodeName,
		corev1.LabelArchStable:           c.Architecture,
		corev1.LabelOSStable:             "linux",
		corev1.LabelNodeExcludeBalancers: "true",
		wellknown.LabelWorkloadManager:   c.WorkloadManager,
		wellknown.Cluster:                c.Cluster,
	}
	if partition := partitionOf(c, inv); partition != nil {
		labels[wellknown.LabelPartition] = partition.Name
	}
	maps.Copy(labels, inventoryLabels(c, partitionOf(c, inv)))
	for key, value := range c.NodeLabels {
		if _, own := labels[key]; !own {
			labels[key] = value
		}
	}
	return labels
}

// nodeID stands for the machine that a virtual node is not: its own, and always
// the same.
func nodeID(f NodeFacts) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("gangline://"+string(f.ClusterUID)+"/"+f.Config.NodeName)).String()
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

// scratchSpace stands for what nobody counts on the HPC side, 1Pi of it. Without a
// number the scheduler would bind no pod that requests ephemeral storage.
const scratchSpace = 1 << 50

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
	if p := partitionOf(f.Config, f.Inventory); p != nil {
		usable := 0
		for _, n := range p.Nodes {
			if n.Usable {
				usable++
			}
		}
		reachable.Message += fmt.Sprintf("; %d of %d nodes of partition %s take jobs", usable, len(p.Nodes), p.Name)
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
