package translate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

// podOf is a pod with exactly these containers.
func podOf(containers ...string) *corev1.Pod {
	b := translatetest.MakePod("p").Spec(func(s *corev1.PodSpec) { s.Containers = nil })
	for _, name := range containers {
		b = b.Container(name)
	}
	return b.Obj()
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, Ready: true, Started: ptr.To(true), ContainerID: "gangline://1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}},
	}
}

func exited(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, ContainerID: "gangline://1",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}},
	}
}

func condition(t *testing.T, s corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	require.Failf(t, "no condition", "%s", kind)
	return corev1.PodCondition{}
}

func TestPodPhase(t *testing.T) {
	two := podOf("a", "b")
	was := func(phase corev1.PodPhase) *corev1.Pod {
		pod := two.DeepCopy()
		pod.Status.Phase = phase
		return pod
	}
	agent := &spool.Agent{Address: "10.0.0.1"}
	cases := map[string]struct {
		in   translate.Observation
		want corev1.PodPhase
	}{
		"waiting for the gang is Pending": {
			translate.Observation{Pod: two, Waiting: translate.Waiting{Reason: wellknown.ReasonWaitingForGang}}, corev1.PodPending,
		},
		"one of two containers started is Pending": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{running("a"), {Name: "b", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}},
			}}, corev1.PodPending,
		},
		"both started is Running": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{running("a"), running("b")},
			}}, corev1.PodRunning,
		},
		"both ended but not torn down is Running": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{exited("a", 0), exited("b", 1)},
			}}, corev1.PodRunning,
		},
		"done with exit codes 0 is Succeeded": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{exited("a", 0), exited("b", 0)}, Done: true,
			}}, corev1.PodSucceeded,
		},
		"done with another exit code is Failed": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{exited("a", 0), exited("b", 3)}, Done: true,
			}}, corev1.PodFailed,
		},
		"done with a reason of the agent's is Failed": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{exited("a", 0), exited("b", 0)}, Done: true, Reason: "PrivateRootUnavailable",
			}}, corev1.PodFailed,
		},
		"interrupted is Running until it is known why": {
			translate.Observation{Pod: two, Agent: agent, Observed: &spool.PodStatus{
				Containers: []corev1.ContainerStatus{exited("a", 143), exited("b", 143)}, Done: true, Interrupted: true,
			}}, corev1.PodRunning,
		},
		"a silent agent changes nothing": {
			translate.Observation{Pod: was(corev1.PodRunning), Agent: agent}, corev1.PodRunning,
		},
		"an ended allocation fails what still ran": {
			translate.Observation{Pod: was(corev1.PodRunning), Ended: &translate.Ending{Reason: "NodeFailure"}}, corev1.PodFailed,
		},
		"a terminal phase is never left": {
			translate.Observation{Pod: was(corev1.PodSucceeded), Ended: &translate.Ending{Reason: "NodeFailure"}}, corev1.PodSucceeded,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.in.Now = now
			assert.Equal(t, c.want, translate.PodStatus(c.in).Phase)
		})
	}
}

func TestWaitingPodExplainsItself(t *testing.T) {
	pod := podOf("b", "a")
	s := translate.PodStatus(translate.Observation{
		Pod: pod, Now: now, Waiting: translate.Waiting{Reason: wellknown.ReasonQueued, Message: "Slurm job 7 is PENDING (Priority)"},
	})
	assert.Equal(t, wellknown.ReasonQueued, s.Reason)
	assert.Equal(t, "Slurm job 7 is PENDING (Priority)", s.Message)
	require.Len(t, s.ContainerStatuses, 2)
	assert.Equal(t, "a", s.ContainerStatuses[0].Name, "sorted by name")
	assert.Equal(t, wellknown.ReasonQueued, s.ContainerStatuses[0].State.Waiting.Reason)
	assert.Nil(t, s.StartTime, "the queue's time is not the pod's")
	ready := condition(t, s, corev1.PodReadyToStartContainers)
	assert.Equal(t, corev1.ConditionFalse, ready.Status)
	assert.Equal(t, "PodSandboxNotReady", ready.Reason)
}

func TestRunningPod(t *testing.T) {
	pod := podOf("a")
	pod.Generation = 3
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: "site.example/licence", Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))},
	}
	s := translate.PodStatus(translate.Observation{
		Pod: pod, Now: now, Agent: &spool.Agent{Address: "10.0.0.1", Node: "hpc1"},
		Observed: &spool.PodStatus{Started: now, Containers: []corev1.ContainerStatus{running("a")}},
	})
	assert.Equal(t, "10.0.0.1", s.PodIP)
	assert.Equal(t, "10.0.0.1", s.HostIP)
	assert.Equal(t, now.Truncate(time.Second), s.StartTime.Time)
	assert.Equal(t, corev1.ConditionTrue, condition(t, s, "site.example/licence").Status, "others' conditions are kept")
	ready := condition(t, s, corev1.PodReady)
	assert.Equal(t, corev1.ConditionTrue, ready.Status)
	assert.Equal(t, now.Truncate(time.Second), ready.LastTransitionTime.Time, "it has just become ready")
	assert.EqualValues(t, 3, ready.ObservedGeneration)
	assert.Equal(t, now.Add(-time.Hour), condition(t, s, corev1.PodScheduled).LastTransitionTime.Time, "nothing changed")
	assert.Empty(t, s.Reason)

	again := pod.DeepCopy()
	again.Status = s
	later := translate.PodStatus(translate.Observation{
		Pod: again, Now: now.Add(time.Minute), Agent: &spool.Agent{Address: "10.0.0.1", Node: "hpc1"},
		Observed: &spool.PodStatus{Started: now, Containers: []corev1.ContainerStatus{running("a")}},
	})
	assert.Equal(t, s, later, "the same observation gives the same status, whatever the time")
}

func TestReadiness(t *testing.T) {
	pod := func(gates ...corev1.PodReadinessGate) *corev1.Pod {
		return translatetest.MakePod("p").InitContainer("i").Sidecar("s").
			Spec(func(s *corev1.PodSpec) { s.ReadinessGates = gates }).Obj()
	}
	gate := corev1.PodReadinessGate{ConditionType: "site.example/licence"}
	licensed := func(status corev1.ConditionStatus) *corev1.Pod {
		p := pod(gate)
		p.Status.Conditions = []corev1.PodCondition{{Type: gate.ConditionType, Status: status}}
		return p
	}
	unready := func(s corev1.ContainerStatus) corev1.ContainerStatus { s.Ready = false; return s }
	unstarted := func(s corev1.ContainerStatus) corev1.ContainerStatus {
		s.Ready, s.Started = false, ptr.To(false)
		return s
	}
	waits := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	}
	done := exited("i", 0)
	done.Ready = true
	type verdict struct {
		status          corev1.ConditionStatus
		reason, message string
	}
	yes := verdict{status: corev1.ConditionTrue}
	no := func(reason, message string) verdict { return verdict{corev1.ConditionFalse, reason, message} }
	for sentence, c := range map[string]struct {
		pod                                *corev1.Pod
		init, sidecar, main                corev1.ContainerStatus
		initialized, containersReady, both verdict
	}{
		"all is well": {pod(), done, running("s"), running("main"), yes, yes, yes},
		"the main container is not ready": {
			pod(), done, running("s"), unready(running("main")), yes,
			no("ContainersNotReady", "containers with unready status: [main]"), no("ContainersNotReady", "containers with unready status: [main]"),
		},
		"a sidecar that is not ready counts": {
			pod(), done, unready(running("s")), running("main"), yes,
			no("ContainersNotReady", "containers with unready status: [s]"), no("ContainersNotReady", "containers with unready status: [s]"),
		},
		"a sidecar that has not started holds the pod up": {
			pod(), done, unstarted(running("s")), waits("main"), no("ContainersNotInitialized", "containers with incomplete status: [s]"),
			no("ContainersNotReady", "containers with unready status: [s main]"), no("ContainersNotReady", "containers with unready status: [s main]"),
		},
		"an init container that failed holds it up": {
			pod(), exited("i", 1), waits("s"), waits("main"), no("ContainersNotInitialized", "containers with incomplete status: [i s]"),
			no("ContainersNotReady", "containers with unready status: [s main]"), no("ContainersNotReady", "containers with unready status: [s main]"),
		},
		"a sidecar that starts again does not make the pod uninitialized": {
			pod(), done, exited("s", 1), running("main"), yes,
			no("ContainersNotReady", "containers with unready status: [s]"), no("ContainersNotReady", "containers with unready status: [s]"),
		},
		"a readiness gate that nobody has opened": {
			pod(gate), done, running("s"), running("main"), yes, yes,
			no("ReadinessGatesNotReady", `corresponding condition of pod readiness gate "site.example/licence" does not exist.`),
		},
		"a readiness gate that is closed": {
			licensed(corev1.ConditionFalse), done, running("s"), running("main"), yes, yes,
			no("ReadinessGatesNotReady", `the status of pod readiness gate "site.example/licence" is not "True", but False`),
		},
		"a readiness gate that is open": {licensed(corev1.ConditionTrue), done, running("s"), running("main"), yes, yes, yes},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := translate.PodStatus(translate.Observation{
				Pod: c.pod, Now: now, Agent: &spool.Agent{Address: "10.0.0.1"},
				Observed: &spool.PodStatus{
					InitContainers: []corev1.ContainerStatus{c.init, c.sidecar}, Containers: []corev1.ContainerStatus{c.main},
				},
			})
			for kind, want := range map[corev1.PodConditionType]verdict{
				corev1.PodInitialized: c.initialized, corev1.ContainersReady: c.containersReady, corev1.PodReady: c.both,
			} {
				got := condition(t, s, kind)
				assert.Equal(t, want, verdict{got.Status, got.Reason, got.Message}, kind)
			}
		})
	}
}

func TestAllocationEnding(t *testing.T) {
	cases := map[string]struct {
		reason     string
		exit       int32
		disruption bool
	}{
		"NodeFailure": {wellknown.ReasonNodeFailure, 137, true},
		"Preempted":   {wellknown.ReasonPreempted, 143, true},
		"Lost":        {wellknown.ReasonAllocationLost, 137, true},
		"Timeout":     {wellknown.ReasonDeadline, 143, false},
		"OutOfMemory": {wellknown.ReasonOOMKilled, 137, false},
		"Cancelled":   {wellknown.ReasonCancelled, 143, false},
		"Failed":      {wellknown.ReasonAllocationEnded, 137, false},
		"Completed":   {wellknown.ReasonAllocationEnded, 137, false},
		"Unheard-of":  {wellknown.ReasonAllocationEnded, 137, false},
	}
	for outcome, want := range cases {
		t.Run(outcome, func(t *testing.T) {
			ending := translate.AllocationEnding(spool.Ended{Outcome: outcome, Message: "why"})
			pod := podOf("a")
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{running("a")}
			s := translate.PodStatus(translate.Observation{Pod: pod, Now: now, Ended: &ending})
			assert.Equal(t, want.reason, s.Reason)
			assert.Equal(t, "why", s.Message)
			terminated := s.ContainerStatuses[0].State.Terminated
			require.NotNil(t, terminated, "no process is left running")
			assert.Equal(t, want.exit, terminated.ExitCode)
			disrupted := false
			for _, c := range s.Conditions {
				disrupted = disrupted || c.Type == corev1.DisruptionTarget
			}
			assert.Equal(t, want.disruption, disrupted)
		})
	}
}

func TestTheUsersOwnExitCodeIsKept(t *testing.T) {
	pod := podOf("a", "b")
	ending := translate.AllocationEnding(spool.Ended{Outcome: "NodeFailure"})
	s := translate.PodStatus(translate.Observation{
		Pod: pod, Now: now, Ended: &ending,
		Observed: &spool.PodStatus{Containers: []corev1.ContainerStatus{exited("a", 3), running("b")}},
	})
	assert.EqualValues(t, 3, s.ContainerStatuses[0].State.Terminated.ExitCode)
	assert.EqualValues(t, 137, s.ContainerStatuses[1].State.Terminated.ExitCode)
}

func TestAContainersImageIsTheOneItStartedWith(t *testing.T) {
	pod := podOf("a")
	started := running("a")
	started.ContainerID = "gangline://u-a-0"
	look := func(image string, observed ...corev1.ContainerStatus) string {
		pod.Spec.Containers[0].Image = image
		o := translate.Observation{Pod: pod, Now: now, Agent: &spool.Agent{}}
		if len(observed) > 0 {
			o.Observed = &spool.PodStatus{Containers: observed}
		}
		pod.Status = translate.PodStatus(o)
		return pod.Status.ContainerStatuses[0].Image
	}
	assert.Equal(t, "tool:1", look("tool:1"))
	assert.Equal(t, "tool:2", look("tool:2"), "its orders are still to be made")
	assert.Equal(t, "tool:2", look("tool:2", started))
	assert.Equal(t, "tool:2", look("tool:3", started), "they stay as they are")
}

func TestRejectedStatusIsKubelets(t *testing.T) {
	pod := podOf("a")
	s := translate.RejectedStatus(pod, now, translate.Rejection{Reason: "NoCommand", Message: "no command"})
	assert.Equal(t, corev1.PodFailed, s.Phase)
	assert.Equal(t, "NoCommand", s.Reason)
	assert.Equal(t, "Pod was rejected: no command", s.Message)
}

func TestARejectedPodThatWouldBeMadeAnewAtOnceWaits(t *testing.T) {
	for kind, phase := range map[string]corev1.PodPhase{
		"ReplicaSet": corev1.PodPending, "StatefulSet": corev1.PodPending, "ReplicationController": corev1.PodPending,
		"Job": corev1.PodFailed, "DaemonSet": corev1.PodFailed,
	} {
		t.Run(kind, func(t *testing.T) {
			pod := podOf("a")
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "web", Controller: ptr.To(true)}}
			s := translate.RejectedStatus(pod, now, translate.Rejection{Reason: "NoCommand", Message: "no command"})
			assert.Equal(t, phase, s.Phase)
			if phase != corev1.PodPending {
				return
			}
			assert.Equal(t, corev1.ContainerStateWaiting{Reason: "NoCommand", Message: "Pod was rejected: no command"}, *s.ContainerStatuses[0].State.Waiting)
			pod.Status = s
			again := translate.RejectedStatus(pod, now.Add(time.Minute), translate.Rejection{Reason: "NoCommand", Message: "no command"})
			assert.Equal(t, s, again, "it is written once")
		})
	}
}
