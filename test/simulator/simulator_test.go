package simulator

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// rig is a simulator and a spool, of which the test is the node.
type rig struct {
	*testing.T
	*Simulator
	root spool.Root
}

func newRig(t *testing.T, change func(*Options)) *rig {
	o := Options{Seed: 1, Nodes: 2, Node: NodeShape{CPUs: 4}, Look: 2 * time.Millisecond, Idle: 5 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &rig{T: t, Simulator: s, root: spool.Root(t.TempDir())}
}

// submit makes a gang's directory and asks for its job.
func (r *rig) submit(name string, slots int) (string, spool.Gang) {
	r.Helper()
	g := spool.Gang{Version: spool.Version, Allocation: name, Node: "hpc", Slots: make([]spool.Slot, slots)}
	for k := range slots {
		g.Tasks = append(g.Tasks, []int{k})
	}
	require.NoError(r, r.root.Create(g))
	id, err := r.Submit(r.Context(), r.request(name, slots))
	require.NoError(r, err)
	return id, g
}

func (r *rig) request(name string, slots int) translate.Request {
	return translate.Request{
		Name: name, Dir: string(r.root.Dir(name)),
		Groups: []translate.TaskGroup{{Tasks: slots, Resources: translate.Resources{CPUs: 1}}},
	}
}

// order gives all slots of a gang a pod, as the node does once all agents have reported.
func (r *rig) order(g spool.Gang, argv ...string) {
	r.Helper()
	dir := r.root.Dir(g.Allocation)
	for k := range g.Slots {
		var s spool.Status
		r.eventually("the agent reports", func() bool {
			found, err := spool.Read(dir.Status(k), &s)
			return err == nil && found
		})
		uid := g.Allocation + string(rune('a'+k))
		sealed, err := spool.Seal(s.Agent.Recipient, spool.PodOrders{UID: uid, Containers: []spool.ContainerOrders{{Name: "main", Argv: argv}}})
		require.NoError(r, err)
		require.NoError(r, spool.Write(dir.Desired(k), spool.Desired{
			PodUID: uid, Action: spool.ActionRun, Recipient: s.Agent.Recipient, Orders: sealed,
		}))
	}
	g.Names = []spool.Name{{Slot: 0}}
	require.NoError(r, spool.Write(dir.Gang(), g))
}

func (r *rig) release(g spool.Gang) {
	r.Helper()
	g.Release, g.Names = true, []spool.Name{{Slot: 0}}
	require.NoError(r, spool.Write(r.root.Dir(g.Allocation).Gang(), g))
}

func (r *rig) status(name string, slot int) spool.Status {
	var s spool.Status
	_, _ = spool.Read(r.root.Dir(name).Status(slot), &s)
	return s
}

func (r *rig) job(id string) wlm.Job {
	r.Helper()
	jobs, err := r.List(r.Context())
	require.NoError(r, err)
	for _, j := range jobs {
		if j.ID == id {
			return j
		}
	}
	return wlm.Job{}
}

func (r *rig) eventually(what string, is func() bool) {
	r.Helper()
	require.Eventually(r, is, 20*time.Second, 2*time.Millisecond, what)
}

func running(s spool.Status) bool {
	return s.Pod != nil && len(s.Pod.Containers) > 0 && s.Pod.Containers[0].State.Running != nil
}

func ended(s spool.Status) *corev1.ContainerStateTerminated {
	if s.Pod == nil || !s.Pod.Done || len(s.Pod.Containers) == 0 {
		return nil
	}
	return s.Pod.Containers[0].State.Terminated
}

func TestAGangRunsAndIsGivenBack(t *testing.T) {
	r := newRig(t, nil)
	id, g := r.submit("pi", 3)
	r.order(g, "forever")
	for k := range 3 {
		r.eventually("the pod runs", func() bool { return running(r.status("pi", k)) })
		assert.DirExists(t, r.root.Dir("pi").PodLogs(k, r.status("pi", k).Pod.UID))
	}
	assert.Equal(t, wlm.PhaseRunning, r.job(id).Phase)
	assert.Equal(t, 3, r.Stats().Pods)
	r.release(g)
	r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
	assert.Equal(t, wlm.OutcomeCompleted, r.job(id).Outcome)
	assert.EqualValues(t, 143, ended(r.status("pi", 0)).ExitCode)
	assert.Zero(t, r.Stats().Pods)
	assert.Equal(t, 3, r.Stats().Started)
}

func TestPodsEndAsTheirCommandsSay(t *testing.T) {
	for command, code := range map[string]int32{"true": 0, "false": 1} {
		t.Run(command, func(t *testing.T) {
			r := newRig(t, nil)
			id, g := r.submit("pi", 1)
			r.order(g, command)
			r.eventually("the pod ends", func() bool { return ended(r.status("pi", 0)) != nil })
			assert.Equal(t, code, ended(r.status("pi", 0)).ExitCode)
			r.release(g)
			r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
			assert.Equal(t, code == 0, r.job(id).Outcome == wlm.OutcomeCompleted)
		})
	}
}

func TestAPodIsStopped(t *testing.T) {
	r := newRig(t, nil)
	_, g := r.submit("pi", 1)
	r.order(g, "forever")
	r.eventually("the pod runs", func() bool { return running(r.status("pi", 0)) })
	require.NoError(t, spool.Write(r.root.Dir("pi").Desired(0), spool.Desired{PodUID: "pia", Action: spool.ActionStop}))
	r.eventually("the pod ends", func() bool { return ended(r.status("pi", 0)) != nil })
	assert.False(t, r.status("pi", 0).Pod.Interrupted)
}

func TestACancelledJobSaysSo(t *testing.T) {
	r := newRig(t, nil)
	id, g := r.submit("pi", 1)
	r.order(g, "forever")
	r.eventually("the pod runs", func() bool { return running(r.status("pi", 0)) })
	require.NoError(t, r.Cancel(t.Context(), "", id))
	r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
	assert.Equal(t, wlm.OutcomeCancelled, r.job(id).Outcome)
	assert.True(t, r.status("pi", 0).Pod.Interrupted)
}

func TestADuplicateRunsNothing(t *testing.T) {
	r := newRig(t, nil)
	first, _ := r.submit("pi", 1)
	r.eventually("the first reports", func() bool { return r.status("pi", 0).Agent.Instance != "" })
	second, err := r.Submit(t.Context(), r.request("pi", 1))
	require.NoError(t, err)
	r.eventually("the second ends", func() bool { return r.job(second).Phase == wlm.PhaseEnded })
	assert.Equal(t, wlm.PhaseRunning, r.job(first).Phase)
	assert.Equal(t, first, r.status("pi", 0).Agent.JobID)
}

func TestJobsWaitForNodes(t *testing.T) {
	r := newRig(t, nil) // two nodes with four CPUs each
	first, g := r.submit("first", 6)
	second, _ := r.submit("second", 3)
	assert.Equal(t, "Resources", r.job(second).Reason)
	assert.Equal(t, "sim[1-2]", r.job(first).Nodes)
	r.eventually("the first reports", func() bool { return r.status("first", 5).Agent.Instance != "" })
	r.release(g)
	r.eventually("the second starts", func() bool { return r.job(second).Phase == wlm.PhaseRunning })
	_, err := r.Submit(t.Context(), translate.Request{Groups: []translate.TaskGroup{{Tasks: 1, Resources: translate.Resources{CPUs: 5}}}})
	var refused *wlm.RejectedError
	require.ErrorAs(t, err, &refused)
}

func TestFailuresByHand(t *testing.T) {
	r := newRig(t, nil)
	id, g := r.submit("pi", 1)
	r.order(g, "forever")
	r.eventually("the pod runs", func() bool { return running(r.status("pi", 0)) })

	r.FailLists(1)
	_, err := r.List(t.Context())
	require.Error(t, err)
	assert.Equal(t, id, r.job(id).ID, "only once")
	r.Silence(true)
	_, err = r.Inventory(t.Context())
	require.Error(t, err)
	r.Silence(false)

	require.NoError(t, r.root.Create(spool.Gang{Version: 1, Allocation: "lost", Slots: make([]spool.Slot, 1), Tasks: [][]int{{0}}}))
	r.LoseAnswers(1)
	_, err = r.Submit(t.Context(), r.request("lost", 1))
	require.Error(t, err)
	assert.Equal(t, "lost", r.job("2").Name, "the job is there all the same")
	require.NoError(t, r.Forget("2"))
	assert.Empty(t, r.job("2").Name)

	require.NoError(t, r.FailNode("sim1"))
	r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
	assert.Equal(t, wlm.OutcomeNodeFailure, r.job(id).Outcome)
	assert.Nil(t, ended(r.status("pi", 0)), "the agent said nothing")
	require.NoError(t, r.RestoreNode("sim1"))
	require.Error(t, r.FailNode("none"))
}

func TestTheSeedDecides(t *testing.T) {
	draws := func(seed uint64) (all []bool) {
		c := newChance(seed)
		for range 64 {
			all = append(all, c.happens("submit fails", .5))
		}
		return all
	}
	assert.Equal(t, draws(1), draws(1))
	assert.NotEqual(t, draws(1), draws(2))
	_, err := New(Options{Failures: Failures{Agents: 2}})
	require.ErrorContains(t, err, "failures.Agents is a probability")
}

func TestTheClientIsTheSimulator(t *testing.T) {
	r := newRig(t, func(o *Options) { o.User = "ada" })
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, r.Simulator) }()
	c := Client{Socket: socket}

	require.NoError(t, r.root.Create(spool.Gang{Version: 1, Allocation: "pi", Slots: make([]spool.Slot, 1), Tasks: [][]int{{0}}}))
	id, err := c.Submit(t.Context(), r.request("pi", 1))
	require.NoError(t, err)
	jobs, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	assert.Equal(t, "ada", jobs[0].User)
	inv, err := c.Inventory(t.Context())
	require.NoError(t, err)
	assert.Len(t, inv.Partitions[0].Nodes, 2)
	_, err = c.Submit(t.Context(), translate.Request{Groups: []translate.TaskGroup{{Tasks: 1, Resources: translate.Resources{CPUs: 99}}}})
	var refused *wlm.RejectedError
	require.ErrorAs(t, err, &refused, "a refusal stays one")
	require.NoError(t, c.Cancel(t.Context(), "", id))
	r.eventually("the job ends", func() bool { return r.job(id).Phase == wlm.PhaseEnded })
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, stats.Submitted)
	require.NoError(t, c.FailNode(t.Context(), "sim2"))
	require.NoError(t, c.RestoreNode(t.Context(), "sim2"))
	require.ErrorContains(t, c.FailNode(t.Context(), "none"), "none of that name")
	accounts, err := c.Accounts(t.Context())
	require.NoError(t, err)
	assert.Len(t, accounts["pi"].Submitted, 1)
	cancel()
	require.NoError(t, <-served)
	_, err = c.List(t.Context())
	require.Error(t, err)
}
