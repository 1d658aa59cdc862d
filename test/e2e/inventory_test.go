package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestInventory is about what the virtual node tells of the HPC nodes behind it. Its tests
// follow one another: each looks at the whole node.
func TestInventory(t *testing.T) {
	t.Parallel()
	loopback := freeLoopback(t)
	env := environment(t, "inventory", "slurm", 2, func(c *provider.Config) {
		c.PageAddress = loopback
		c.CountOthers, c.QueueFactor = true, 1
		c.InventoryInterval.Duration = time.Second
		c.Nodes = []provider.NodeEntry{{
			Name: "inventory-low", Partition: "low", Port: freePort(t), QueueFactor: 3, NodeLabels: map[string]string{"site": "low"},
		}}
	})
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"labels tell what the nodes are like", nodeLabels},
		{"two partitions are two nodes of one process", twoNodes},
		{"each has its page on loopback", func(w *world) { pagesOnLoopback(w, loopback) }},
		{"what others use is not offered, what our own pods use is", othersUse},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

// waitVirtualNode waits until the virtual node is as it should be.
func (w *world) waitVirtualNode(name, what string, good func(*corev1.Node) (bool, string)) {
	w.Helper()
	w.eventually("node "+name+" "+what, func(ctx context.Context) (bool, string) {
		node := &corev1.Node{}
		if err := w.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, err.Error()
		}
		return good(node)
	})
}

func nodeLabels(w *world) {
	has := func(want map[string]string, not ...string) func(*corev1.Node) (bool, string) {
		return func(n *corev1.Node) (bool, string) {
			for key, value := range want {
				if n.Labels[key] != value {
					return false, fmt.Sprint(n.Labels)
				}
			}
			for _, key := range not {
				if _, there := n.Labels[key]; there {
					return false, fmt.Sprint(n.Labels)
				}
			}
			return true, ""
		}
	}
	nodes := w.env.Slurm.Nodes()
	w.scontrol("update", "node="+nodes[0], "features=ib,old")
	w.scontrol("update", "node="+nodes[1], "features=ib")
	w.waitVirtualNode(w.env.Name, "has its labels", has(map[string]string{
		"nvidia.com/gpu.product":            "h100",
		wellknown.LabelFeaturePrefix + "ib": "true", wellknown.LabelFeaturePrefix + "old": "some",
	}))
	w.scontrol("update", "node="+nodes[0], "activefeatures=ib")
	w.waitVirtualNode(w.env.Name, "has lost a label", has(nil, wellknown.LabelFeaturePrefix+"old"))
}

func othersUse(w *world) {
	offers := func(cpus, gpus int64) func(*corev1.Node) (bool, string) {
		return func(n *corev1.Node) (bool, string) {
			gpu := n.Status.Capacity["nvidia.com/gpu"]
			return n.Status.Capacity.Cpu().Value() == cpus && gpu.Value() == gpus, fmt.Sprint(n.Status.Capacity)
		}
	}
	w.waitVirtualNode(w.env.Name, "offers all", offers(16, 16))
	id, err := w.env.Slurm.Submit(w.Context(), "#!/bin/sh\nsleep 600\n", "--ntasks=1", "--cpus-per-task=3", "--gpus-per-task=2", "--job-name=other")
	require.NoError(w, err)
	w.waitVirtualNode(w.env.Name, "offers less", offers(13, 14))
	w.create(w.makePod("ours", "sleep 600", resources("2", "1")))
	w.waitPhase("ours", corev1.PodRunning)
	_, err = w.env.Slurm.Run(w.Context(), "scancel", id)
	require.NoError(w, err)
	w.waitVirtualNode(w.env.Name, "does not count what our pod uses", offers(16, 16))
	w.create(w.makePod("too-large", "true", resources("15", "0")))
	w.waitPod("too-large", "is not scheduled", func(p *corev1.Pod) bool {
		return len(p.Status.Conditions) > 0 && containsAll(p.Status.Conditions[0].Message, "Insufficient cpu")
	})
	drained := w.env.Slurm.Nodes()[1]
	w.scontrol("update", "node="+drained, "state=drain", "reason=test")
	w.waitVirtualNode(w.env.Name, "offers nothing of a drained node", offers(8, 8))
	w.scontrol("update", "node="+drained, "state=resume")
	w.waitVirtualNode(w.env.Name, "offers it again", offers(16, 16))
	assert.Equal(w, corev1.PodRunning, w.pod("ours").Status.Phase)
	w.must("delete", "pod", "ours", "too-large")
}

func freePort(t *testing.T) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return int32(l.Addr().(*net.TCPAddr).Port)
}

func twoNodes(w *world) {
	const second = "inventory-low"
	w.waitVirtualNode(second, "is Ready", func(n *corev1.Node) (bool, string) {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return n.Labels[wellknown.LabelPartition] == "low" && n.Labels["site"] == "low" && n.Status.Allocatable.Cpu().Value() == 48, fmt.Sprint(n)
			}
		}
		return false, fmt.Sprint(n.Status.Conditions)
	})
	w.must("get", "lease", second, "-n", "kube-node-lease")

	elsewhere := w.makePod("elsewhere", "echo here; sleep 8; echo there", resources("1", "0"))
	elsewhere.Spec.NodeSelector[corev1.LabelHostname] = second
	gang := makeJobSet("gang", w.replicated("worker", "sleep 2", 2, resources("1", "0")))
	gang.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.NodeSelector[corev1.LabelHostname] = second
	w.create(elsewhere, gang, w.makePod("first", "sleep 8", resources("1", "0")))
	for name, partition := range map[string]string{"elsewhere": "low", "first": "batch"} {
		pod := w.waitPhase(name, corev1.PodRunning)
		job := w.jobs(*pod)[pod.Annotations[wellknown.AnnotationJobID]]
		assert.Equal(w, partition, job.Partition, name)
	}
	assert.Contains(w, w.must("logs", "elsewhere"), "here", "the second node has a port of its own")
	out, err := w.kubectl("exec", "elsewhere", "--", "echo", "inside")
	assert.NoError(w, err)
	assert.Contains(w, out, "inside")
	w.waitJobSet("gang", jobset.JobSetCompleted)
	// A process that begins anew finds the pods of both.
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context()))
	for _, name := range []string{"elsewhere", "first"} {
		w.waitJobGone(*w.waitPhase(name, corev1.PodSucceeded))
	}
}
