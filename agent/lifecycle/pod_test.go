package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/provider/spool"
)

// world drives a pod: every method is an event, and do() the answer to all of
// them so far.
type world struct {
	t    *testing.T
	pod  *lifecycle.Pod
	now  time.Time
	wake time.Time
}

func newWorld(t *testing.T, policy corev1.RestartPolicy, init, main []spool.ContainerOrders) *world {
	t.Helper()
	return &world{t: t, now: time.Unix(1000, 0), pod: lifecycle.NewPod(spool.PodOrders{
		UID: "u", Namespace: "default", Name: "pi", RestartPolicy: policy, GraceSeconds: 30,
		InitContainers: init, Containers: main,
	})}
}

func containers(names ...string) []spool.ContainerOrders {
	var list []spool.ContainerOrders
	for _, n := range names {
		list = append(list, spool.ContainerOrders{Name: n})
	}
	return list
}

func withPolicy(name string, p corev1.ContainerRestartPolicy) spool.ContainerOrders {
	return spool.ContainerOrders{Name: name, RestartPolicy: &p}
}

func sidecar(name string) spool.ContainerOrders {
	return withPolicy(name, corev1.ContainerRestartPolicyAlways)
}

// do returns what is to be done now, and what is to be started runs at once.
func (w *world) do() []string {
	actions, wake := w.pod.Step(w.now)
	w.wake = wake
	var list []string
	for _, a := range actions {
		text := fmt.Sprintf("%s %s %d", a.Verb, a.Container, a.Run)
		if a.Probe != "" {
			text += " " + string(a.Probe)
		}
		if !a.Until.IsZero() {
			text += " " + a.Until.Sub(w.now).String()
		}
		list = append(list, text)
		if a.Verb == lifecycle.Start {
			w.pod.Started(a.Container, w.now)
		}
	}
	return list
}

func (w *world) expect(actions ...string) {
	w.t.Helper()
	assert.Equal(w.t, actions, w.do())
}

func (w *world) exit(name string, code int) {
	w.pod.Exited(name, w.now, lifecycle.Exit{Code: code})
}

func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) stop(grace time.Duration) { w.pod.Stop(w.now, grace) }

func (w *world) wakesIn(d time.Duration) {
	w.t.Helper()
	assert.Equal(w.t, d, w.wake.Sub(w.now))
}

func (w *world) finished(want bool) {
	w.t.Helper()
	assert.Equal(w.t, want, w.pod.Finished())
}

func (w *world) main(i int) corev1.ContainerStatus { return w.pod.Status().Containers[i] }

const (
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
	always    = corev1.RestartPolicyAlways
)

func TestPod(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T){
		"main containers start together and the pod ends with the last": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("a", "b"))
			w.expect("start a 0", "start b 0")
			w.exit("a", 0)
			w.expect()
			w.finished(false)
			w.exit("b", 3)
			w.expect()
			w.finished(true)
		},
		"init containers run one after the other before the main ones": func(t *testing.T) {
			w := newWorld(t, never, containers("i", "j"), containers("m"))
			w.expect("start i 0")
			w.expect()
			w.exit("i", 0)
			w.expect("start j 0")
			w.exit("j", 0)
			w.expect("start m 0")
			w.exit("m", 0)
			w.expect()
			w.finished(true)
		},
		"a failed init container ends a pod that never restarts": func(t *testing.T) {
			w := newWorld(t, never, containers("i"), containers("m"))
			w.expect("start i 0")
			w.exit("i", 1)
			w.expect()
			w.finished(true)
			assert.Equal(t, "PodInitializing", w.main(0).State.Waiting.Reason)
		},
		"a failed init container is tried again otherwise": func(t *testing.T) {
			w := newWorld(t, always, containers("i"), containers("m"))
			w.expect("start i 0")
			w.exit("i", 1)
			w.expect("start i 1")
			w.exit("i", 1)
			w.expect()
			w.wakesIn(10 * time.Second)
			w.after(10 * time.Second)
			w.expect("start i 2")
			w.exit("i", 0)
			w.expect("start m 0")
		},
		"an init container's own policy wins over the pod's": func(t *testing.T) {
			w := newWorld(t, always, []spool.ContainerOrders{withPolicy("i", corev1.ContainerRestartPolicyNever)}, containers("m"))
			w.expect("start i 0")
			w.exit("i", 1)
			w.expect()
			w.finished(true)
		},
		"a sidecar lets the next one start as soon as it runs": func(t *testing.T) {
			w := newWorld(t, never, []spool.ContainerOrders{sidecar("s"), {Name: "i"}}, containers("m"))
			w.expect("start s 0")
			w.expect("start i 0")
			w.exit("i", 0)
			w.expect("start m 0")
		},
		"a sidecar starts again while the pod runs, and holds nobody up": func(t *testing.T) {
			w := newWorld(t, never, []spool.ContainerOrders{sidecar("s")}, containers("m"))
			w.expect("start s 0")
			w.expect("start m 0")
			w.exit("s", 0)
			w.expect("start s 1")
			w.exit("s", 1)
			w.expect()
			w.wakesIn(10 * time.Second)
			w.exit("m", 0)
			w.expect()
			w.finished(true)
		},
		"sidecars end after the main containers, the last first": func(t *testing.T) {
			w := newWorld(t, never, []spool.ContainerOrders{sidecar("s"), sidecar("r")}, containers("m"))
			w.expect("start s 0")
			w.expect("start r 0")
			w.expect("start m 0")
			w.exit("m", 0)
			w.expect("terminate r 0")
			w.finished(false)
			w.exit("r", 143)
			w.expect("terminate s 0")
			w.exit("s", 143)
			w.expect()
			w.finished(true)
		},
		"a stop ends main containers, then sidecars": func(t *testing.T) {
			w := newWorld(t, always, []spool.ContainerOrders{sidecar("s")}, containers("a", "b"))
			w.expect("start s 0")
			w.expect("start a 0", "start b 0")
			w.stop(10 * time.Second)
			w.expect("terminate a 0", "terminate b 0")
			w.wakesIn(10 * time.Second)
			w.exit("a", 143)
			w.expect()
			w.exit("b", 0)
			w.expect("terminate s 0")
			w.exit("s", 0)
			w.expect()
			w.finished(true)
			assert.EqualValues(t, 0, w.main(0).RestartCount)
		},
		"when the grace is over all are killed": func(t *testing.T) {
			w := newWorld(t, always, []spool.ContainerOrders{sidecar("s")}, containers("m"))
			w.expect("start s 0")
			w.expect("start m 0")
			w.stop(10 * time.Second)
			w.expect("terminate m 0")
			w.after(10 * time.Second)
			w.expect("terminate s 0", "kill m 0")
			w.wakesIn(2 * time.Second)
			w.after(2 * time.Second)
			w.expect("kill s 0")
			w.expect()
			w.exit("s", 137)
			w.exit("m", 137)
			w.expect()
			w.finished(true)
		},
		"a later stop may shorten the grace but not lengthen it": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("m"))
			w.expect("start m 0")
			w.stop(30 * time.Second)
			w.expect("terminate m 0")
			w.stop(60 * time.Second)
			w.expect()
			w.wakesIn(30 * time.Second)
			w.stop(5 * time.Second)
			w.expect()
			w.wakesIn(5 * time.Second)
		},
		"no grace is two seconds": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("m"))
			w.expect("start m 0")
			w.stop(0)
			w.expect("terminate m 0")
			w.wakesIn(2 * time.Second)
		},
		"a stop without grace ends the sidecars at once as well": func(t *testing.T) {
			w := newWorld(t, always, []spool.ContainerOrders{sidecar("s")}, containers("m"))
			w.expect("start s 0")
			w.expect("start m 0")
			w.stop(30 * time.Second)
			w.expect("terminate m 0")
			w.after(10 * time.Second)
			w.stop(0)
			w.expect("terminate s 0", "kill m 0")
			w.wakesIn(2 * time.Second)
		},
		"a stop before the start starts nothing": func(t *testing.T) {
			w := newWorld(t, always, containers("i"), containers("m"))
			w.stop(time.Second)
			w.expect()
			w.finished(true)
		},
		"a stop while an init container runs ends it": func(t *testing.T) {
			w := newWorld(t, always, containers("i"), containers("m"))
			w.expect("start i 0")
			w.stop(5 * time.Second)
			w.expect("terminate i 0")
			w.exit("i", 0)
			w.expect()
			w.finished(true)
		},
		"a container that is still being started is terminated once it runs": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("m"))
			w.pod.Step(w.now)
			w.stop(5 * time.Second)
			w.expect()
			w.pod.Started("m", w.now)
			w.expect("terminate m 0")
		},
		"a container that is still being started is killed when the grace is over": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("m"))
			w.pod.Step(w.now)
			w.stop(5 * time.Second)
			w.after(5 * time.Second)
			w.expect("kill m 0")
		},
		"on failure only a failed container starts again": func(t *testing.T) {
			w := newWorld(t, onFailure, nil, containers("a", "b"))
			w.expect("start a 0", "start b 0")
			w.exit("a", 0)
			w.exit("b", 1)
			w.expect("start b 1")
			w.exit("b", 0)
			w.expect()
			w.finished(true)
		},
		"a container's own policy wins over the pod's": func(t *testing.T) {
			w := newWorld(t, never, nil, []spool.ContainerOrders{withPolicy("m", corev1.ContainerRestartPolicyOnFailure)})
			w.expect("start m 0")
			w.exit("m", 1)
			w.expect("start m 1")
		},
		"back-off doubles up to five minutes and is forgotten after ten": func(t *testing.T) {
			w := newWorld(t, always, nil, containers("m"))
			w.expect("start m 0")
			w.exit("m", 0)
			w.expect("start m 1")
			for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
				w.exit("m", 1)
				w.expect()
				w.wakesIn(want * time.Second)
				w.after(want * time.Second)
				w.expect(fmt.Sprintf("start m %d", i+2))
			}
			w.after(10*time.Minute + time.Second)
			w.exit("m", 1)
			w.expect("start m 9")
			w.exit("m", 1)
			w.expect()
			w.wakesIn(10 * time.Second)
		},
		"back-off counts from the end of the run": func(t *testing.T) {
			w := newWorld(t, always, nil, containers("m"))
			w.expect("start m 0")
			w.exit("m", 1)
			w.expect("start m 1")
			w.exit("m", 1)
			w.after(4 * time.Second)
			w.expect()
			w.wakesIn(6 * time.Second)
		},
		"a stop during back-off shows how the run ended": func(t *testing.T) {
			w := newWorld(t, always, nil, containers("m"))
			w.expect("start m 0")
			w.exit("m", 1)
			w.expect("start m 1")
			w.exit("m", 2)
			w.expect()
			s := w.main(0)
			assert.Equal(t, "CrashLoopBackOff", s.State.Waiting.Reason)
			assert.Equal(t, "back-off 10s restarting failed container=m pod=pi_default(u)", s.State.Waiting.Message)
			assert.EqualValues(t, 2, s.LastTerminationState.Terminated.ExitCode)
			w.stop(time.Second)
			w.expect()
			w.finished(true)
			s = w.main(0)
			assert.EqualValues(t, 2, s.State.Terminated.ExitCode)
			assert.EqualValues(t, 1, s.LastTerminationState.Terminated.ExitCode)
		},
	} {
		t.Run(sentence, story)
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(t, always, []spool.ContainerOrders{{Name: "i"}, sidecar("s")}, containers("m"))
	s := w.pod.Status()
	assert.True(t, s.Started.IsZero())
	assert.Equal(t, "PodInitializing", s.InitContainers[0].State.Waiting.Reason)
	assert.Empty(t, s.InitContainers[0].ContainerID)

	w.expect("start i 0")
	s = w.pod.Status()
	assert.Equal(t, w.now, s.Started)
	assert.NotNil(t, s.InitContainers[0].State.Running)
	assert.False(t, s.InitContainers[0].Ready)

	w.exit("i", 0)
	w.expect("start s 0")
	w.expect("start m 0")
	s = w.pod.Status()
	assert.True(t, s.InitContainers[0].Ready)
	assert.Equal(t, "Completed", s.InitContainers[0].State.Terminated.Reason)
	assert.True(t, s.InitContainers[1].Ready)
	assert.True(t, s.Containers[0].Ready)
	assert.True(t, *s.Containers[0].Started)
	assert.Equal(t, "gangline://u-m-0", s.Containers[0].ContainerID)

	w.after(time.Second)
	w.exit("m", 137)
	m := w.main(0)
	assert.False(t, m.Ready)
	assert.Equal(t, "Error", m.State.Terminated.Reason)
	assert.EqualValues(t, 137, m.State.Terminated.ExitCode)
	assert.Equal(t, time.Second, m.State.Terminated.FinishedAt.Sub(m.State.Terminated.StartedAt.Time))
	assert.Equal(t, "gangline://u-m-0", m.State.Terminated.ContainerID)

	w.expect("start m 1")
	m = w.main(0)
	assert.Equal(t, "gangline://u-m-1", m.ContainerID)
	assert.EqualValues(t, 1, m.RestartCount)
	assert.EqualValues(t, 137, m.LastTerminationState.Terminated.ExitCode)
}

func TestAContainerThatCannotStart(t *testing.T) {
	w := newWorld(t, never, nil, containers("m"))
	w.pod.Step(w.now)
	w.pod.Exited("m", w.now, lifecycle.Exit{Code: 128, Reason: "StartError", Message: "no such file"})
	w.expect()
	w.finished(true)
	end := w.main(0).State.Terminated
	assert.Equal(t, "StartError", end.Reason)
	assert.Equal(t, "no such file", end.Message)
	assert.True(t, w.pod.Status().Started.IsZero())
}
