package provider

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestStages(t *testing.T) {
	reported := func(c *scene, slots ...int) {
		for _, k := range slots {
			c.s.reports[k].Agent.Instance = "i"
		}
	}
	for sentence, tc := range map[string]struct {
		lead func(*scene)
		want metrics.Stage
	}{
		"a gang whose pods are not all there forms": {func(c *scene) { c.worker(0) }, metrics.StageForming},
		"one that is whole and has no job yet, too": {func(c *scene) { c.worker(0); c.worker(1) }, metrics.StageForming},
		"a gang without pods is over":               {func(*scene) {}, metrics.StageOver},
		"one whose pods have all ended is over": {func(c *scene) {
			c.worker(0).pod.Status.Phase = corev1.PodSucceeded
		}, metrics.StageOver},
		"an allocation without a job is being submitted": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseQueued).job = nil
		}, metrics.StageSubmitting},
		"a job waits": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseQueued)
		}, metrics.StageQueued},
		"a job that is not listed yet waits": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseQueued)
			c.s.job = nil
		}, metrics.StageQueued},
		"a job runs and an agent is missing": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseRunning)
			reported(c, 0, 1)
		}, metrics.StageStarting},
		"all agents are there": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseRunning)
			reported(c, 0, 1, 2)
		}, metrics.StageRunning},
		"the agents know before the listing does": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseQueued)
			reported(c, 0, 1, 2)
		}, metrics.StageRunning},
		"an allocation that is given back drains": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseRunning).gang.Release = true
			reported(c, 0, 1, 2)
		}, metrics.StageDraining},
		"one whose end is being written drains": {func(c *scene) {
			c.worker(0)
			c.allocated(wlm.PhaseEnded)
			c.s.ending = &spool.Ended{}
		}, metrics.StageDraining},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newScene(t)
			tc.lead(c)
			assert.Equal(t, tc.want, c.s.stage())
		})
	}
}

func TestSitesAreCountedByState(t *testing.T) {
	var none *people
	assert.Nil(t, none.states(), "not known yet")
	p := &people{all: map[string]*acquaintance{
		"ada": {user: &hpcUser{name: "ada", site: site.Local{}}},
		"bob": {user: &hpcUser{name: "bob", site: downSite{}}},
		"eve": {user: &hpcUser{name: "eve"}, err: errors.New("no such user")},
	}}
	assert.Equal(t, map[string]int{metrics.SiteUp: 1, metrics.SiteDown: 1, metrics.SiteUnread: 1}, p.states())
	require.NoError(t, p.unread(), "the others can work")
	p.all = map[string]*acquaintance{"eve": p.all["eve"]}
	assert.ErrorContains(t, p.unread(), "as user eve: no such user")
	p.all = nil
	assert.NoError(t, p.unread())
}

type downSite struct{ site.Local }

func (downSite) Down() bool { return true }

func TestNodesOfThePartitionAreCounted(t *testing.T) {
	assert.Nil(t, hpcNodes(nil))
	assert.Equal(t, map[string]int{metrics.NodeUsable: 2, metrics.NodeUnusable: 1},
		hpcNodes(&wlm.Partition{Nodes: []wlm.Node{{Usable: true}, {Usable: true}, {}}}))
}

func TestAnOutageIsToldAtItsBeginningAndEnd(t *testing.T) {
	v := &virtualNode{answered: time.Now(), stale: make(chan struct{}, 1), published: health.NewOnce("")}
	away := errors.New("slurmctld does not answer")
	assert.False(t, v.heard(away), "a restart is no outage")
	require.NoError(t, v.silent())
	v.answered = time.Now().Add(-outageAfter)
	assert.True(t, v.heard(away))
	assert.False(t, v.heard(away))
	require.ErrorIs(t, v.silent(), away)
	assert.True(t, v.heard(nil))
	require.NoError(t, v.silent())

	events := record.NewFakeRecorder(2)
	r := &Reconciler{recorder: events, kind: "Slurm"}
	r.tellOutage(away)
	r.tellOutage(nil)
	assert.Equal(t, "Warning WorkloadManagerUnreachable Slurm does not answer; pods keep their state until it does: slurmctld does not answer", <-events.Events)
	assert.Equal(t, "Normal WorkloadManagerReachable Slurm answers again", <-events.Events)
}

func TestAnAgentInAnothersPlaceIsCounted(t *testing.T) {
	dir := spool.Dir(t.TempDir())
	require.NoError(t, dir.Create(1))
	require.NoError(t, spool.Write(dir.Claim(), spool.Claim{}))
	a := &allocation{site: site.Local{}, dir: dir, gang: spool.Gang{Allocation: "a", Slots: make([]spool.Slot, 1)}}
	registry := prometheus.NewRegistry()
	table := newStatusTable(nil, time.Second)
	var err error
	table.metrics, err = metrics.NewNode(registry, metrics.Sources{})
	require.NoError(t, err)
	restarts := func(instance string) string {
		require.NoError(t, spool.Write(dir.Status(0), spool.Status{Agent: spool.Agent{Instance: instance}}))
		_, err := table.scan(t.Context(), []*allocation{a})
		require.NoError(t, err)
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "gangline_agent_restarts_total" {
				return f.GetMetric()[0].GetCounter().String()
			}
		}
		return "none"
	}
	assert.Equal(t, restarts("one"), restarts("one"))
	assert.NotEqual(t, restarts("one"), restarts("two"))
	n, err := testutil.GatherAndCount(registry, "gangline_agent_restarts_total")
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.WithinDuration(t, time.Now(), table.writtenAt(a)[0], time.Minute)
}

func TestEventsOfAnAllocation(t *testing.T) {
	pod := func(reason, message, node string) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Reason: reason, Message: message}}
		if node != "" {
			p.Annotations = map[string]string{wellknown.AnnotationHPCNode: node}
		}
		return p
	}
	for sentence, tc := range map[string]struct {
		before, after *corev1.Pod
		want          string
	}{
		"a job that waits tells nothing": {pod("Queued", "a", ""), pod("Queued", "b", ""), ""},
		"it has its nodes":               {pod("Queued", "a", ""), pod("Starting", "Slurm job 7 is RUNNING on hpc1", ""), "Slurm job 7 is RUNNING on hpc1"},
		"all passed that came before":    {pod("WaitingForGang", "a", ""), pod("Starting", "Slurm job 7 is RUNNING on hpc1", ""), "Slurm job 7 is RUNNING on hpc1"},
		"it had them at once":            {pod("Submitting", "a", ""), pod("Starting", "Slurm job 7 is RUNNING on hpc1", ""), "Slurm job 7 is RUNNING on hpc1"},
		"the pod runs by then":           {pod("Queued", "a", ""), pod("", "", "hpc1"), "The job has started on hpc1"},
		"it is told once":                {pod("Starting", "a", ""), pod("Starting", "b", "hpc1"), ""},
		"it was cancelled in the queue":  {pod("Queued", "a", ""), pod("AllocationCancelled", "b", ""), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := ""
			for _, tale := range allocationTales(tc.before, tc.after) {
				assert.Equal(t, "AllocationStarted", tale.reason)
				got += tale.message
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAgentsAreCountedByVersions(t *testing.T) {
	report := func(version string) spool.Status {
		return spool.Status{Agent: spool.Agent{Instance: "i", Program: version}}
	}
	count := map[string]int{}
	agentPrograms([]spool.Status{
		report("v1.2.3"), report("v1.2.3"), report("v1.2.4-3-gabcdef1"), report("dev"), report(""), report("<script>"), {},
	}, count)
	assert.Equal(t, map[string]int{"v1.2.3": 2, "v1.2.4-3-gabcdef1": 1, "dev": 1, "unknown": 2}, count)
	for i := range 100 { // as somebody may write who wants to fill the memory of Prometheus
		agentPrograms([]spool.Status{report(fmt.Sprintf("v0.0.%d", i))}, count)
	}
	assert.LessOrEqual(t, len(count), mostPrograms+1)
}
