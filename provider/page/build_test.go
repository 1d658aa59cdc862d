package page

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func pod(name string, phase corev1.PodPhase, slot int) Pod {
	return Pod{Slot: slot, Pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ada", Name: name, CreationTimestamp: metav1.NewTime(at(0))},
		Status:     corev1.PodStatus{Phase: phase},
	}}
}

func done(p Pod, from, to int) Pod {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt: metav1.NewTime(at(from)), FinishedAt: metav1.NewTime(at(to)),
	}}}}
	return p
}

func agentAt(node string, seconds int) spool.Status {
	return spool.Status{Agent: spool.Agent{Instance: "i", Node: node, Started: at(seconds)}}
}

func pi(job *wlm.Job, reports ...spool.Status) *Allocation {
	a := &Allocation{
		Name: "pi-1", Namespace: "ada", Owner: "JobSet ada/pi", User: "ada", Generation: 1, Job: job, Reports: reports,
		Slots: []spool.Slot{{CPUs: 4, GPUs: 2}, {CPUs: 4, GPUs: 2}},
	}
	if job != nil {
		a.Submitted = &spool.Job{ID: job.ID, Submitted: at(10)}
	}
	return a
}

func TestStagesAndTimelines(t *testing.T) {
	queued := &wlm.Job{ID: "7", State: "PENDING", Phase: wlm.PhaseQueued}
	running := &wlm.Job{ID: "7", State: "RUNNING", Phase: wlm.PhaseRunning, Started: at(70)}
	pending := []Pod{pod("pi-0", corev1.PodPending, 0), pod("pi-1", corev1.PodPending, 1)}
	ended := pi(running)
	ended.Reports = make([]spool.Status, 2) // forgotten
	ended.Ended = &spool.Ended{Outcome: "Completed", At: at(200)}
	again := pi(running)
	again.Ended = &spool.Ended{Outcome: "Cancelled", At: at(200)}
	second := pi(queued)
	second.Generation = 2
	for sentence, tc := range map[string]struct {
		gang     Gang
		stage    Stage
		timeline string
	}{
		"pods alone":                      {Gang{Pods: pending}, Forming, "Forming 0-"},
		"a directory and no job":          {Gang{Pods: pending, Allocation: pi(nil)}, Submitting, "Forming 0-"},
		"a job that waits":                {Gang{Pods: pending, Allocation: pi(queued)}, Queued, "Forming 0-10 Queued 10-"},
		"the second allocation of a gang": {Gang{Pods: pending, Allocation: second}, Queued, "Queued 10-"},
		"a job that has started":          {Gang{Pods: pending, Allocation: pi(running, agentAt("a", 72), spool.Status{})}, Starting, "Forming 0-10 Queued 10-70 Starting 70-"},
		"all agents are there":            {Gang{Pods: pending, Allocation: pi(running, agentAt("a", 72), agentAt("b", 73))}, Running, "Forming 0-10 Queued 10-70 Starting 70-73 Running 73-"},
		"an agent's clock is behind":      {Gang{Pods: pending, Allocation: pi(running, agentAt("a", 5), agentAt("b", 6))}, Running, "Forming 0-10 Queued 10-70 Starting 70-70 Running 70-"},
		"all pods are done":               {Gang{Pods: []Pod{done(pod("pi-0", corev1.PodSucceeded, 0), 74, 90)}, Allocation: pi(running, agentAt("a", 72), agentAt("b", 73))}, Draining, "Forming 0-10 Queued 10-70 Starting 70-73 Running 73-90 Draining 90-"},
		"it has ended":                    {Gang{Pods: []Pod{done(pod("pi-0", corev1.PodSucceeded, 0), 74, 90)}, Allocation: ended}, Ended, "Forming 0-10 Queued 10-70 Starting 70-74 Running 74-90 Draining 90-200"},
		"it has ended and there is a pod": {Gang{Pods: pending, Allocation: again}, Forming, "Forming 0-"},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, tc.stage, stage(tc.gang))
			var parts []string
			for _, s := range timeline(tc.gang) {
				text := string(s.Stage) + " " + seconds(s.From) + "-"
				if !s.To.IsZero() {
					text += seconds(s.To)
				}
				parts = append(parts, text)
			}
			assert.Equal(t, tc.timeline, strings.Join(parts, " "))
		})
	}
}

func seconds(t time.Time) string { return strconv.Itoa(int(t.Sub(noon).Seconds())) }

// example is one node with gangs in several stages.
func example() State {
	running := pi(&wlm.Job{ID: "7", State: "RUNNING", Phase: wlm.PhaseRunning, Started: at(20), Nodes: "[a-b]", LimitEnd: at(3600)}, agentAt("a", 21), agentAt("b", 22))
	waits := func(id, reason string, expected time.Time, submitted int) Gang {
		a := pi(&wlm.Job{ID: id, State: "PENDING", Reason: reason, Explanation: "others are before it", Phase: wlm.PhaseQueued, ExpectedStart: expected})
		a.Namespace, a.Owner, a.Submitted.Submitted = "bob", "JobSet bob/"+id, at(submitted)
		return Gang{Key: "q" + id, Allocation: a}
	}
	late := waits("12", "Priority", time.Time{}, 30)
	late.Pods = []Pod{pod("late-0", corev1.PodPending, -1)}
	forming := pod("alone", corev1.PodPending, -1)
	forming.Status.Reason, forming.Status.Message = "WaitingForGang", "1 of 4 pods"
	broken := pod("pi-1", corev1.PodRunning, 1)
	broken.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "<script>alert(1)</script>"}}}}
	return State{
		Node: "hpc", Cluster: "default", Manager: "slurm 22.05.8", Listed: at(99),
		Partition: &wlm.Partition{Name: "batch", Nodes: []wlm.Node{
			{Name: "a", CPUs: 8, GPUs: 4, MemoryMiB: 16384, State: "mixed", Usable: true, Used: translate.Resources{CPUs: 6, GPUs: 3}},
			{Name: "b", CPUs: 8, GPUs: 4, MemoryMiB: 16384, State: "mixed", Usable: true},
			{Name: "c", CPUs: 8, GPUs: 4, MemoryMiB: 16384, State: "drained"},
		}},
		Gangs: []Gang{
			{Key: "f", Pods: []Pod{forming}},
			late, waits("11", "Resources", at(500), 40), waits("10", "Priority", time.Time{}, 20),
			{Key: "r", Allocation: running, Pods: []Pod{pod("pi-0", corev1.PodRunning, 0), broken}},
		},
	}
}

func TestTheView(t *testing.T) {
	data, err := json.MarshalIndent(Build(example(), "", at(100)), "", "  ")
	require.NoError(t, err)
	golden.Equal(t, "testdata/view.json", string(data)+"\n")
}

func TestOneNamespace(t *testing.T) {
	v := Build(example(), "bob", at(100))
	require.Len(t, v.Gangs, 3)
	for i, id := range []string{"q11", "q10", "q12"} {
		assert.Equal(t, id, v.Gangs[i].ID)
		assert.Equal(t, i+1, v.Gangs[i].Place)
		assert.Equal(t, 3, v.Gangs[i].Of)
	}
	assert.Equal(t, []string{"ada", "bob"}, v.Namespaces)
	assert.Empty(t, v.Nodes[0].Slots)
	assert.Equal(t, Amount{6, 3}, v.Nodes[0].Others)
}

func TestALongListIsCut(t *testing.T) {
	s := State{}
	for range maxGangs + 5 {
		s.Gangs = append(s.Gangs, Gang{Pods: []Pod{pod("p", corev1.PodPending, -1)}})
	}
	v := Build(s, "", at(0))
	assert.Len(t, v.Gangs, maxGangs)
	assert.Equal(t, 5, v.Omitted)
}
