package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/translate/wellknown"
)

// nodePace is how often the group's node looks what Slurm has.
const nodePace = 2 * time.Second

// TestNodeObject is about the Node in the API server. Its tests follow one
// another: there is one node.
func TestNodeObject(t *testing.T) {
	t.Parallel()
	env := environment(t, "object", "slurm", 2, func(c *provider.Config) { c.InventoryInterval.Duration = nodePace })
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"it looks right", nodeLooksRight},
		{"it is made again when it is deleted, and its pods live on", nodeDeleted},
		{"what others set stays, and what the configuration says is there", nodeMetadata},
		{"a restart changes nothing", nodeRestart},
		{"capacity follows drains", nodeDrains},
		{"while nothing changes nothing is written", nodeQuiet},
		{"an outage keeps new pods away", nodeOutage},
		{"kubectl drain", kubectlDrain},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func (w *world) node() *corev1.Node {
	w.Helper()
	node := &corev1.Node{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Name: w.env.Name}, node))
	return node
}

// waitNode waits until the node is as it should be, and returns it.
func (w *world) waitNode(what string, good func(*corev1.Node) bool) *corev1.Node {
	w.Helper()
	var node *corev1.Node
	w.eventually("the node "+what, func(ctx context.Context) (bool, string) {
		node = &corev1.Node{}
		if err := w.client.Get(ctx, client.ObjectKey{Name: w.env.Name}, node); err != nil {
			return false, err.Error()
		}
		return good(node), fmt.Sprintf("%v %v %v %v", node.Labels, node.Spec, node.Status.Capacity, node.Status.Conditions)
	})
	return node
}

func condition(n *corev1.Node, kind corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func hasTaint(n *corev1.Node, key string) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

func nodeLooksRight(w *world) {
	node := w.node()
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
		corev1.NodeNetworkUnavailable, wellknown.ConditionReachable,
	} {
		c := condition(node, kind)
		want := corev1.ConditionFalse
		if kind == corev1.NodeReady || kind == wellknown.ConditionReachable {
			want = corev1.ConditionTrue
		}
		assert.Equal(w, want, c.Status, kind)
		assert.NotEmpty(w, c.Reason, kind)
		assert.NotEmpty(w, c.Message, kind)
		assert.False(w, c.LastHeartbeatTime.IsZero() || c.LastTransitionTime.IsZero(), kind)
	}
	assert.True(w, strings.HasPrefix(node.Status.NodeInfo.KubeletVersion, "v1.37."), node.Status.NodeInfo.KubeletVersion)
	assert.True(w, strings.HasPrefix(node.Status.NodeInfo.ContainerRuntimeVersion, "slurm://"), node.Status.NodeInfo.ContainerRuntimeVersion)
	w.create(w.makePod("described", "sleep 600", resources("2", "1")))
	w.waitPhase("described", corev1.PodRunning)
	out := w.must("describe", "node", w.env.Name)
	for _, part := range []string{
		"Allocated resources:", w.namespace + "  ", "described", "nvidia.com/gpu", "cpu                2 (", wellknown.TaintKey + "=" + wellknown.TaintValue + ":NoSchedule",
		"InternalIP", "Lease:", "slurm://",
	} {
		assert.Contains(w, out, part)
	}
	out = w.must("get", "nodes", w.env.Name, "-o", "wide")
	assert.Contains(w, out, "Ready")
	w.must("delete", "pod", "described", "--now")
}

func nodeDeleted(w *world) {
	w.create(w.makePod("lives", "sleep 600", resources("1", "0")))
	pod := w.waitPhase("lives", corev1.PodRunning)
	for range 3 {
		before := w.node().UID
		w.must("delete", "node", w.env.Name)
		w.waitNode("is there again", func(n *corev1.Node) bool {
			return n.UID != before && condition(n, corev1.NodeReady).Status == corev1.ConditionTrue &&
				hasTaint(n, wellknown.TaintKey) && !hasTaint(n, corev1.TaintNodeNotReady)
		})
	}
	// Its lease has to be the new node's, or it would be collected as garbage.
	now := w.node().UID
	w.eventually("the lease is the new node's", func(ctx context.Context) (bool, string) {
		lease := &coordinationv1.Lease{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: w.env.Name}, lease); err != nil {
			return false, err.Error()
		}
		return len(lease.OwnerReferences) == 1 && lease.OwnerReferences[0].UID == now, fmt.Sprint(lease.OwnerReferences)
	})
	after := w.pod("lives")
	assert.Equal(w, pod.UID, after.UID)
	assert.Equal(w, corev1.PodRunning, after.Status.Phase)
	assert.Equal(w, pod.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID)
	assert.Equal(w, "alive", strings.TrimSpace(w.must("exec", "lives", "--", "echo", "alive")))
	w.must("delete", "pod", "lives", "--now")
}

func nodeMetadata(w *world) {
	name := w.env.Name
	w.must("label", "node", name, "theirs=label")
	w.must("annotate", "node", name, "theirs=annotation")
	w.must("taint", "node", name, "theirs=taint:NoSchedule")
	w.must("cordon", name)
	// Somebody changes what is the node's own.
	w.must("label", "node", name, wellknown.LabelNodeType+"-", wellknown.Cluster+"=wrong", "--overwrite")
	w.must("taint", "node", name, wellknown.TaintKey+":NoSchedule-")
	theirs := func(n *corev1.Node) bool {
		return n.Labels["theirs"] == "label" && n.Annotations["theirs"] == "annotation" && hasTaint(n, "theirs") &&
			n.Spec.Unschedulable && hasTaint(n, corev1.TaintNodeUnschedulable)
	}
	own := func(n *corev1.Node) bool {
		return n.Labels[wellknown.LabelNodeType] == wellknown.LabelNodeTypeValue && n.Labels[wellknown.Cluster] == name &&
			hasTaint(n, wellknown.TaintKey)
	}
	w.waitNode("has its own again, and theirs", func(n *corev1.Node) bool { return own(n) && theirs(n) })

	w.reconfigure(func(c *provider.Config) {
		c.NodeLabels = map[string]string{"topology.kubernetes.io/zone": "alps"}
		c.NodeTaints = []corev1.Taint{{Key: "site", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	w.waitNode("has what the configuration says", func(n *corev1.Node) bool {
		return n.Labels["topology.kubernetes.io/zone"] == "alps" && hasTaint(n, "site") && own(n) && theirs(n)
	})
	w.reconfigure(func(c *provider.Config) { c.NodeLabels, c.NodeTaints = nil, nil })
	w.waitNode("has no more than the configuration says", func(n *corev1.Node) bool {
		_, zone := n.Labels["topology.kubernetes.io/zone"]
		return !zone && !hasTaint(n, "site") && own(n) && theirs(n)
	})
	w.must("uncordon", name)
	w.must("taint", "node", name, "theirs-")
}

// reconfigure restarts the node with another configuration.
func (w *world) reconfigure(change func(*provider.Config)) {
	w.Helper()
	require.NoError(w, w.env.Node.Stop())
	require.NoError(w, w.env.Node.Reconfigure(change))
	require.NoError(w, w.env.Node.Start(w.Context()))
}

func nodeRestart(w *world) {
	before := w.node()
	// Times in an object are of whole seconds: the next one tells the new heartbeat.
	time.Sleep(time.Until(condition(before, corev1.NodeReady).LastHeartbeatTime.Add(time.Second)))
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context()))
	after := w.waitNode("is looked after again", func(n *corev1.Node) bool {
		return condition(n, corev1.NodeReady).LastHeartbeatTime.After(condition(before, corev1.NodeReady).LastHeartbeatTime.Time)
	})
	for _, c := range before.Status.Conditions {
		assert.Equal(w, c.LastTransitionTime.Time.UTC(), condition(after, c.Type).LastTransitionTime.Time.UTC(), c.Type)
		assert.Equal(w, c.Status, condition(after, c.Type).Status, c.Type)
	}
	assert.Equal(w, before.UID, after.UID)
	assert.Equal(w, before.Status.NodeInfo, after.Status.NodeInfo)
	assert.Equal(w, before.Status.Capacity, after.Status.Capacity)
	assert.ElementsMatch(w, before.Spec.Taints, after.Spec.Taints)
}

func nodeDrains(w *world) {
	whole := w.node().Status.Capacity.Cpu().Value()
	drained := w.env.Slurm.Nodes()[0]
	update := func(state string) {
		w.Helper()
		_, err := w.env.Slurm.Output(w.Context(), "head", "scontrol", "update", "NodeName="+drained, "State="+state, "Reason=test")
		require.NoError(w, err)
	}
	update("DRAIN")
	node := w.waitNode("has half of its CPUs", func(n *corev1.Node) bool { return n.Status.Capacity.Cpu().Value() == whole/2 })
	assert.Equal(w, 10*whole/2, node.Status.Allocatable.Cpu().Value())
	assert.Contains(w, condition(node, wellknown.ConditionReachable).Message, "1 of 2 nodes")
	update("RESUME")
	w.waitNode("has all of its CPUs", func(n *corev1.Node) bool { return n.Status.Capacity.Cpu().Value() == whole })
	require.NoError(w, w.env.Slurm.Crash(w.Context(), drained))
	_, err := w.env.Slurm.Output(w.Context(), "head", "scontrol", "update", "NodeName="+drained, "State=DOWN", "Reason=test")
	require.NoError(w, err)
	w.waitNode("does without a node that is down", func(n *corev1.Node) bool { return n.Status.Capacity.Cpu().Value() == whole/2 })
	require.NoError(w, w.env.Slurm.Restart(w.Context(), drained))
	w.waitNode("has it back", func(n *corev1.Node) bool { return n.Status.Capacity.Cpu().Value() == whole })
}

// nodeQuiet watches the node for several of its looks.
func nodeQuiet(w *world) {
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(w, err)
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	node := w.node()
	watch, err := clientset.CoreV1().Nodes().Watch(w.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + node.Name, ResourceVersion: node.ResourceVersion,
	})
	require.NoError(w, err)
	defer watch.Stop()
	select {
	case event := <-watch.ResultChan():
		assert.Fail(w, "the node was written", "%+v", event.Object)
	case <-time.After(4 * nodePace):
	}
}

func nodeOutage(w *world) {
	w.create(w.makePod("before", "sleep 600", resources("1", "0")))
	w.waitPhase("before", corev1.PodRunning)
	ready := condition(w.node(), corev1.NodeReady)
	require.NoError(w, w.env.Slurm.StopController(w.Context()))
	node := w.waitNode("says that Slurm is silent, and keeps pods away", func(n *corev1.Node) bool {
		return condition(n, wellknown.ConditionReachable).Status == corev1.ConditionFalse && hasTaint(n, wellknown.TaintUnreachable)
	})
	assert.Equal(w, corev1.ConditionTrue, condition(node, corev1.NodeReady).Status)
	assert.Equal(w, ready.LastTransitionTime.Time.UTC(), condition(node, corev1.NodeReady).LastTransitionTime.Time.UTC())
	renewed := w.lease()
	w.create(w.makePod("during", "echo ran", resources("1", "0")))
	w.waitPod("during", "is told why it waits", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "taint") {
				return true
			}
		}
		return false
	})
	w.eventually("the lease is renewed during the outage", func(context.Context) (bool, string) {
		now := w.lease()
		return now.After(renewed), now.String()
	})
	assert.Equal(w, corev1.PodRunning, w.pod("before").Status.Phase)
	assert.Equal(w, "alive", strings.TrimSpace(w.must("exec", "before", "--", "echo", "alive")))

	require.NoError(w, w.env.Slurm.StartController(w.Context()))
	w.waitNode("takes pods again", func(n *corev1.Node) bool {
		return condition(n, wellknown.ConditionReachable).Status == corev1.ConditionTrue && !hasTaint(n, wellknown.TaintUnreachable)
	})
	w.waitPhase("during", corev1.PodSucceeded)
	assert.Equal(w, corev1.PodRunning, w.pod("before").Status.Phase)
	w.must("delete", "pod", "before", "--now")
}

// lease is when the node's lease was renewed last.
func (w *world) lease() time.Time {
	w.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: w.env.Name}, lease))
	return lease.Spec.RenewTime.Time
}

func kubectlDrain(w *world) {
	w.create(w.makeJob("job", "trap 'exit 0' TERM; sleep 600 & wait", resources("1", "0")))
	w.create(w.makePod("bare", "sleep 600", resources("1", "0")))
	w.waitPhase("bare", corev1.PodRunning)
	var evicted types.UID
	w.eventually("the job's pod runs", func(context.Context) (bool, string) {
		pods := w.pods("job-name", "job")
		if len(pods) == 0 {
			return false, "no pod"
		}
		evicted = pods[0].UID
		return pods[0].Status.Phase == corev1.PodRunning, string(pods[0].Status.Phase)
	})
	out := w.must("drain", w.env.Name, "--force", "--pod-selector=!keep", "--timeout=60s", "--delete-emptydir-data")
	assert.Contains(w, out, "drained")
	assert.True(w, w.node().Spec.Unschedulable)
	w.waitGone("bare")
	for _, p := range w.pods("job-name", "job") {
		assert.NotEqual(w, evicted, p.UID)
	}
	w.must("uncordon", w.env.Name)
}
