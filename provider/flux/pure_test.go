package flux

import (
	"bytes"
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
)

func request(groups ...translate.TaskGroup) translate.Request {
	return translate.Request{Name: "gang", Comment: "gangline: JobSet default/gang", Groups: groups, Agent: "/opt/gangline-agent", Dir: "/spool/gang"}
}

func group(n, cpus, gpus int) translate.TaskGroup {
	return translate.TaskGroup{Tasks: n, Resources: translate.Resources{CPUs: cpus, GPUs: gpus, MemoryMiB: 512}}
}

func TestJobspecs(t *testing.T) {
	for name, change := range map[string]func(*translate.Request){
		"plain":    func(*translate.Request) {},
		"launcher": func(r *translate.Request) { r.Groups = []translate.TaskGroup{group(1, 1, 0), group(4, 2, 1)} },
		"wishes": func(r *translate.Request) {
			r.Partition, r.Account, r.Constraint, r.TimeLimit = "batch", "physics", "big&^old", 90*time.Minute
			r.MinNodes, r.MaxNodes, r.Exclusive = 2, 2, true
			r.Dependency = "afterok:fGfoQkP:fGsfK19,afterany:f1"
		},
		"unlimited": func(r *translate.Request) { r.TimeLimit = translate.NoTimeLimit },
	} {
		t.Run(name, func(t *testing.T) {
			r := request(group(4, 2, 1))
			change(&r)
			spec, err := newJobspec(r, setting{env: map[string]string{"PATH": "/bin"}, hasQueues: true})
			require.NoError(t, err)
			var text bytes.Buffer
			require.NoError(t, json.Indent(&text, []byte(spec.String()), "", "  "))
			text.WriteByte('\n')
			golden.Equal(t, "testdata/"+name+".json", text.String())
		})
	}
}

func TestWhatFluxDoesNotKnowIsRefused(t *testing.T) {
	for words, change := range map[string]func(*translate.Request){
		"QOS":                      func(r *translate.Request) { r.QOS = "high" },
		"reservation":              func(r *translate.Request) { r.Reservation = "night" },
		"licenses":                 func(r *translate.Request) { r.Licenses = "matlab:1" },
		"switches":                 func(r *translate.Request) { r.Switches = translate.Switches{Count: 1} },
		"characterization":         func(r *translate.Request) { r.WCKey = "key" },
		"--spread-job":             func(r *translate.Request) { r.Flags = []translate.Flag{{Name: "spread-job"}} },
		"gpu:h100":                 func(r *translate.Request) { r.Groups[0].Gres = "gpu:h100:1" },
		"one number of nodes":      func(r *translate.Request) { r.MinNodes, r.MaxNodes = 1, 2 },
		"4 pods on at least 3":     func(r *translate.Request) { r.MinNodes, r.MaxNodes = 3, 3 },
		"whole nodes":              func(r *translate.Request) { r.Exclusive = true },
		"the constraint":           func(r *translate.Request) { r.Constraint = "a|b" },
		"no job id":                func(r *translate.Request) { r.Dependency = "afterok:?" },
		"makes no sense":           func(r *translate.Request) { r.Groups[0].Tasks = 0 },
		"no task":                  func(r *translate.Request) { r.Groups = nil },
		"must be absolute":         func(r *translate.Request) { r.Dir = "gang" },
		"which Flux would fill in": func(r *translate.Request) { r.Dir = "/spool/{{id}}" },
	} {
		t.Run(words, func(t *testing.T) {
			r := request(group(4, 2, 1))
			change(&r)
			_, err := newJobspec(r, setting{})
			assert.ErrorContains(t, err, words)
		})
	}
}

func TestStates(t *testing.T) {
	failedBy := func(kind string, severity int) flux.Job {
		return flux.Job{State: flux.StateInactive, Result: flux.Failed, Exception: &flux.Exception{Type: kind, Severity: severity, Note: "so it is"}}
	}
	held := flux.Job{State: flux.StateSched}
	estimated := flux.Job{State: flux.StateSched, Urgency: 16}
	estimated.Annotations.Sched.ReasonPending, estimated.Annotations.Sched.TEstimate = "others are before it", 100
	for name, c := range map[string]struct {
		job  flux.Job
		want wlm.Job
	}{
		"new":         {flux.Job{State: flux.StateNew}, wlm.Job{State: "NEW", Phase: wlm.PhaseQueued, Reason: "New"}},
		"depend":      {flux.Job{State: flux.StateDepend}, wlm.Job{State: "DEPEND", Phase: wlm.PhaseQueued, Reason: "Dependency"}},
		"priority":    {flux.Job{State: flux.StatePriority}, wlm.Job{State: "PRIORITY", Phase: wlm.PhaseQueued, Reason: "Priority"}},
		"sched":       {flux.Job{State: flux.StateSched, Urgency: 16}, wlm.Job{State: "SCHED", Phase: wlm.PhaseQueued, Reason: "Resources"}},
		"held":        {held, wlm.Job{State: "SCHED", Phase: wlm.PhaseQueued, Reason: "Held"}},
		"estimated":   {estimated, wlm.Job{State: "SCHED", Phase: wlm.PhaseQueued, Reason: "Resources", Explanation: "others are before it", ExpectedStart: time.Unix(100, 0).UTC()}},
		"run":         {flux.Job{State: flux.StateRun}, wlm.Job{State: "RUN", Phase: wlm.PhaseRunning}},
		"cleanup":     {flux.Job{State: flux.StateCleanup}, wlm.Job{State: "CLEANUP", Phase: wlm.PhaseEnding}},
		"completed":   {flux.Job{State: flux.StateInactive, Result: flux.Completed}, wlm.Job{State: "COMPLETED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeCompleted}},
		"failed":      {flux.Job{State: flux.StateInactive, Result: flux.Failed}, wlm.Job{State: "FAILED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeFailed}},
		"canceled":    {flux.Job{State: flux.StateInactive, Result: flux.Canceled}, wlm.Job{State: "CANCELED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeCancelled}},
		"timeout":     {flux.Job{State: flux.StateInactive, Result: flux.Timeout}, wlm.Job{State: "TIMEOUT", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeTimeout}},
		"preempted":   {failedBy("preempt", 0), wlm.Job{State: "FAILED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomePreempted, Reason: "preempt", Explanation: "so it is"}},
		"node failed": {failedBy("node-failure", 0), wlm.Job{State: "FAILED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeNodeFailure, Reason: "node-failure", Explanation: "so it is"}},
		"never":       {failedBy("alloc", 0), wlm.Job{State: "FAILED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeFailed, Reason: "alloc", Explanation: "so it is"}},
		"a remark":    {failedBy("node-failure", 1), wlm.Job{State: "FAILED", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeFailed}},
		"a new state": {flux.Job{State: 128}, wlm.Job{State: "0x80", Phase: wlm.PhaseUnknown}},
		"a new end":   {flux.Job{State: flux.StateInactive, Result: 16}, wlm.Job{State: "0x10", Phase: wlm.PhaseUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			got := jobOf(c.job, "")
			if c.want.Explanation == "" {
				got.Explanation = "" // words
			}
			c.want.ID = "f1"
			assert.Equal(t, c.want, got)
		})
	}
}

func TestQueues(t *testing.T) {
	var q instanceConfig
	require.NoError(t, json.Unmarshal([]byte(`{"queues":{"batch":{"requires":["batch"]},"all":{}},
		"policy":{"jobspec":{"defaults":{"system":{"queue":"batch"}}}}}`), &q))
	inventory := newInventory(q, []node{{Node: flux.Node{Host: "a", Properties: []string{"batch"}}}, {Node: flux.Node{Host: "b"}}}, 1)
	require.Len(t, inventory.Partitions, 2)
	all, batch := inventory.Partitions[0], inventory.Partitions[1]
	assert.Equal(t, []any{"all", false, 2}, []any{all.Name, all.Default, len(all.Nodes)})
	assert.Equal(t, []any{"batch", true, 1}, []any{batch.Name, batch.Default, len(batch.Nodes)})
}

func TestNodesStates(t *testing.T) {
	two := []int{0, 1}
	var status flux.ResourceStatus
	for rank := range 6 {
		status.All.Nodes = append(status.All.Nodes, flux.Node{Rank: rank, Cores: two})
	}
	status.Online, status.Excluded = []int{0, 1, 2, 3, 4}, []int{4}
	status.Drained = []flux.Drain{{Ranks: []int{3}}}
	var sched flux.SchedStatus
	sched.Allocated.Nodes = []flux.Node{{Rank: 1, Cores: two[:1]}, {Rank: 2, Cores: two}}
	var states []string
	for _, n := range nodesOf(status, sched) {
		states = append(states, n.state)
	}
	assert.Equal(t, []string{"free", "mixed", "allocated", "drained", "exclude", "offline"}, states)
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		refused bool
	}{
		"a queue that there is not": {&flux.Error{Errno: syscall.EINVAL, Text: "Invalid queue 'x' specified"}, true},
		"a limit":                   {&flux.Error{Errno: syscall.EPERM, Text: "requested duration exceeds policy limit"}, true},
		"a queue that is closed":    {&flux.Error{Errno: syscall.EINVAL, Text: "job submission is disabled: maintenance"}, false},
		"no service":                {&flux.Error{Errno: syscall.ENOSYS, Text: "Unknown service method"}, false},
		"a broker that is gone":     {flux.ErrLost, false},
	} {
		t.Run(name, func(t *testing.T) {
			var refused *wlm.RejectedError
			assert.Equal(t, c.refused, errors.As(verdict(c.err), &refused))
		})
	}
}

func TestKillTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 5 * time.Second, "30s": 30 * time.Second, "1.5m": 90 * time.Second, "10": 10 * time.Second, "soon": 5 * time.Second,
	} {
		var c instanceConfig
		c.Exec.KillTimeout = text
		assert.Equal(t, want, c.killTimeout(), text)
	}
	assert.Equal(t, 28*time.Second, killWait(30*time.Second))
	assert.Equal(t, time.Second, killWait(time.Second))
}

func TestWhatCanNeverBeAskedIsKnownBeforehand(t *testing.T) {
	m := &Manager{}
	r := request(group(2, 0, 0), group(1, 2, 0)) // two pods are still to come
	assert.NoError(t, m.Check(r))
	r.QOS = "high"
	assert.ErrorContains(t, m.Check(r), "QOS")
}
