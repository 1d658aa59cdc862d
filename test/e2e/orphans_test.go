package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestOrphans is about jobs and spool directories whose other half somebody has taken
// away while gangline-node did not look, and about pods that are deleted at bad moments.
func TestOrphans(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "orphans", WorkloadManager: "slurm", Nodes: 3, Cgroup: true})
	_, err := env.Slurm.Output(t.Context(), slurm.Head, "scontrol", "update", "partitionname="+closedPartition, "state=down")
	require.NoError(t, err)
	const atATime = 6
	sideBySide(t, env, atATime, append([]sideCase{
		{"a gang whose spool directory was removed is not run again", directoryRemoved},
		{"a job without pods and directory is cancelled after a delay", orphanedJob},
		{"a job without pods and directory is only reported where that is wanted", reportedJob},
		{"a job and its directory without pods go at once", gangWithoutPods},
	}, deletions()...))
	for _, c := range violentDeletions() {
		t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, env)) })
	}
}

// orphanNode gives the test a node of its own that deals with orphans soon.
func (w *world) orphanNode(name, action string) {
	w.ownNode(name, func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Configure = func(c *provider.Config) {
			configure(c)
			c.Orphans.Action, c.Orphans.Grace.Duration = action, 3*time.Second
			c.MetricsAddress = freeAddress(w)
		}
	})
}

func freeAddress(w *world) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w, err)
	defer l.Close() //nolint:errcheck // it only showed the number
	return l.Addr().String()
}

// running starts a gang of two that would run for long, and waits until it runs.
func (w *world) runningGang(gang string) []corev1.Pod {
	w.create(makeJobSet(gang, w.replicated("worker", w.noting(gang, "sleep 600"), 2, resources("1", "0"))))
	return w.waitAll(gang, corev1.PodRunning, 2)
}

func (w *world) dirOf(pod corev1.Pod) string {
	return string(spool.Root(w.env.Node.Spool()).Dir(pod.Annotations[wellknown.AnnotationAllocation]))
}

func directoryRemoved(w *world) {
	w.orphanNode("orphan-dir", provider.OrphansClean)
	pods := w.runningGang("forgotten")
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, os.RemoveAll(w.dirOf(pods[0])))
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitJobSet("forgotten", jobset.JobSetFailed)
	for _, p := range w.waitAll("forgotten", corev1.PodFailed, 2) {
		assert.Equal(w, wellknown.ReasonAllocationLost, p.Status.Reason)
		assert.True(w, disrupted(p), "a Job's podFailurePolicy may ignore it")
	}
	w.deleteJobSet("forgotten")
	w.nothingLeft("forgotten")
}

func disrupted(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// takeAway removes a gang's pods and owner from the API server, with their finalizers,
// while no gangline-node runs.
func (w *world) takeAway(gang string) {
	w.deleteJobSet(gang)
	// As long as its Jobs are there they replace what is taken from them.
	w.waitEmpty("pod", func() ([]string, error) {
		pods := w.jobSetPods(gang)
		for _, p := range pods {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
			if err := client.IgnoreNotFound(w.client.Patch(w.Context(), &p, patch)); err != nil {
				return nil, err
			}
			if err := client.IgnoreNotFound(w.client.Delete(w.Context(), &p, client.GracePeriodSeconds(0))); err != nil {
				return nil, err
			}
		}
		return podsInWords(pods), nil
	})
}

// orphan makes a job that runs and of which nothing else is left.
func (w *world) orphan(gang string) corev1.Pod {
	pod := w.runningGang(gang)[0]
	require.NoError(w, w.env.Node.Kill())
	w.takeAway(gang)
	require.NoError(w, os.RemoveAll(w.dirOf(pod)))
	return pod
}

func orphanedJob(w *world) {
	w.orphanNode("orphan-job", provider.OrphansClean)
	// Another node's job looks alike.
	other := translate.AllocationName(translate.Names{Cluster: "elsewhere", Node: "orphan-job"}, translate.Gang{Key: "k", OwnerName: "other"}, 1, "x")
	id, err := w.env.Slurm.Submit(w.Context(), "#!/bin/sh\nsleep 600\n", "--job-name="+other, "--mem=16")
	require.NoError(w, err)
	pod := w.orphan("orphaned")
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitJobState(pod, "CANCELLED")
	w.nothingLeft("orphaned")
	w.waitNodeEvent("Orphan", "it is cancelled")
	w.eventually("the metrics count it", func(ctx context.Context) (bool, string) {
		text := w.metrics(ctx)
		return strings.Contains(text, `gangline_orphans_cleaned_total{kind="job"} 1`), text
	})
	job, err := w.env.Slurm.Job(w.Context(), id)
	require.NoError(w, err)
	assert.True(w, active[job.State], "another cluster's job is left alone: %s", job.State)
	_, err = w.env.Slurm.Run(w.Context(), "scancel", id)
	require.NoError(w, err)
}

func reportedJob(w *world) {
	w.orphanNode("orphan-report", provider.OrphansReport)
	pod := w.orphan("reported")
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitNodeEvent("Orphan", "it is left alone")
	assert.Equal(w, "RUNNING", w.jobs(pod)[pod.Annotations[wellknown.AnnotationJobID]].State)
	_, err := w.env.Slurm.Run(w.Context(), "scancel", pod.Annotations[wellknown.AnnotationJobID])
	require.NoError(w, err)
	w.nothingLeft("reported")
}

func gangWithoutPods(w *world) {
	w.orphanNode("orphan-pods", provider.OrphansClean)
	pod := w.runningGang("podless")[0]
	require.NoError(w, w.env.Node.Kill())
	w.takeAway("podless")
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitJobGone(pod)
	w.nothingLeft("podless")
}

// waitNodeEvent waits for an Event of the test's own node.
func (w *world) waitNodeEvent(reason, says string) {
	w.Helper()
	w.eventually("the node has an Event "+reason, func(ctx context.Context) (bool, string) {
		list := &corev1.EventList{}
		if err := w.client.List(ctx, list, client.InNamespace("default")); err != nil {
			return false, err.Error()
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Name == w.env.Name && e.Reason == reason && strings.Contains(e.Message, says) {
				return true, ""
			}
		}
		return false, fmt.Sprint(len(list.Items))
	})
}

// metrics are those of the test's own node.
func (w *world) metrics(ctx context.Context) string {
	var address string
	require.NoError(w, w.env.Node.Reconfigure(func(c *provider.Config) { address = c.MetricsAddress }))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	require.NoError(w, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // only read
	var text strings.Builder
	if err := response.Write(&text); err != nil {
		return err.Error()
	}
	return text.String()
}

// agentsOf are the processes of a pod's allocation's agents, by number.
func agentsOf(allocation string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // only a bad pattern is an error
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may have ended by now
		words := strings.Split(string(line), "\x00")
		if len(words) > 2 && words[1] == "serve" && strings.Contains(string(line), allocation) {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
