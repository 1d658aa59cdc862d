package lifecycle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/provider/spool"
)

// every is a probe that is tried every ten seconds and fails at the second
// failure.
func every() *corev1.Probe {
	return &corev1.Probe{TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 2}
}

func ready(c spool.ContainerOrders) spool.ContainerOrders {
	c.ReadinessProbe = every()
	return c
}

func live(c spool.ContainerOrders) spool.ContainerOrders {
	c.LivenessProbe = every()
	return c
}

func startup(c spool.ContainerOrders) spool.ContainerOrders {
	c.StartupProbe = every()
	return c
}

func hooks(c spool.ContainerOrders, hooks ...lifecycle.Verb) spool.ContainerOrders {
	c.Lifecycle = &corev1.Lifecycle{}
	for _, h := range hooks {
		handler := &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}
		if h == lifecycle.PostStart {
			c.Lifecycle.PostStart = handler
		} else {
			c.Lifecycle.PreStop = handler
		}
	}
	return c
}

func one(c spool.ContainerOrders) []spool.ContainerOrders { return []spool.ContainerOrders{c} }

func named(name string) spool.ContainerOrders { return spool.ContainerOrders{Name: name} }

// probed is the answer to a try in the run of the number.
func (w *world) probed(kind probe.Kind, name string, run int, o probe.Outcome) {
	w.pod.Probed(kind, name, run, w.now, probe.Result{Outcome: o, Message: "said so"})
}

func (w *world) hooked(hook lifecycle.Verb, name string, err error) {
	w.pod.Hooked(hook, name, 0, w.now, err)
}

// isReady checks what the status says of a main container.
func (w *world) isReady(i int, started, ready bool) {
	w.t.Helper()
	s := w.main(i)
	assert.Equal(w.t, started, *s.Started, "started")
	assert.Equal(w.t, ready, s.Ready, "ready")
}

func (w *world) events(want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.pod.Status().Events {
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Container, e.Type, e.Reason, e.Message))
	}
	assert.Equal(w.t, want, got)
}

func TestProbes(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T){
		"a container without probes is ready when it runs": func(t *testing.T) {
			w := newWorld(t, never, nil, containers("m"))
			w.isReady(0, false, false)
			w.expect("start m 0")
			w.isReady(0, true, true)
		},
		"a readiness probe makes a container ready, and unready": func(t *testing.T) {
			w := newWorld(t, never, nil, one(ready(named("m"))))
			w.expect("start m 0")
			w.isReady(0, true, false)
			w.expect("probe m 0 Readiness")
			w.expect()
			w.probed(probe.Readiness, "m", 0, probe.Failure)
			w.expect()
			w.wakesIn(10 * time.Second)
			w.isReady(0, true, false)
			w.after(10 * time.Second)
			w.expect("probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Success)
			w.isReady(0, true, true)
			w.after(10 * time.Second)
			w.expect("probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Failure)
			w.isReady(0, true, true)
			w.after(10 * time.Second)
			w.expect("probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Failure)
			w.isReady(0, true, false)
			w.events(
				"m Warning Unhealthy: Readiness probe failed: said so",
				"m Warning Unhealthy: Readiness probe failed: said so",
			)
		},
		"a startup probe holds the others back": func(t *testing.T) {
			w := newWorld(t, never, nil, one(startup(ready(live(named("m"))))))
			w.expect("start m 0")
			w.expect("probe m 0 Startup")
			w.isReady(0, false, false)
			w.probed(probe.Startup, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Startup")
			w.probed(probe.Startup, "m", 0, probe.Success)
			w.isReady(0, true, false)
			w.expect("probe m 0 Liveness", "probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Success)
			w.isReady(0, true, true)
			w.after(time.Minute)
			w.expect("probe m 0 Readiness")
		},
		"a container that fails its startup probe starts again": func(t *testing.T) {
			w := newWorld(t, always, nil, one(startup(named("m"))))
			w.expect("start m 0")
			w.expect("probe m 0 Startup")
			w.probed(probe.Startup, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Startup")
			w.probed(probe.Startup, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.exit("m", 143)
			w.expect("start m 1")
			w.expect("probe m 1 Startup")
			w.events(
				"m Warning Unhealthy: Startup probe failed: said so",
				"m Normal Killing: Container m failed startup probe, will be restarted",
			)
		},
		"a container that fails its liveness probe starts again on failure, even if it ends well": func(t *testing.T) {
			w := newWorld(t, onFailure, nil, one(live(named("m"))))
			w.expect("start m 0")
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.wakesIn(30 * time.Second)
			w.exit("m", 0)
			w.expect("start m 1")
			w.finished(false)
			assert.EqualValues(t, 1, w.main(0).RestartCount)
			w.expect("probe m 1 Liveness")
			w.exit("m", 0)
			w.expect()
			w.finished(true)
		},
		"a pod that never restarts ends with a failed liveness probe": func(t *testing.T) {
			w := newWorld(t, never, nil, one(live(named("m"))))
			w.pod.Step(w.now)
			w.pod.Started("m", w.now)
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.exit("m", 143)
			w.expect()
			w.finished(true)
			w.events(
				"m Warning Unhealthy: Liveness probe failed: said so",
				"m Normal Killing: Container m failed liveness probe",
			)
		},
		"a probe's own grace comes before the pod's": func(t *testing.T) {
			o := live(named("m"))
			o.LivenessProbe.TerminationGracePeriodSeconds = ptr.To[int64](7)
			o.LivenessProbe.FailureThreshold = 1
			w := newWorld(t, always, nil, one(o))
			w.expect("start m 0")
			w.expect("probe m 0 Liveness")
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.wakesIn(7 * time.Second)
			w.after(7 * time.Second)
			w.expect("kill m 0")
		},
		"a sidecar lets the next one start when its startup probe has succeeded": func(t *testing.T) {
			w := newWorld(t, never, one(startup(ready(sidecar("s")))), containers("m"))
			w.expect("start s 0")
			w.expect("probe s 0 Startup")
			w.expect()
			w.probed(probe.Startup, "s", 0, probe.Success)
			w.expect("start m 0", "probe s 0 Readiness")
			assert.False(t, w.pod.Status().InitContainers[0].Ready, "and need not be ready for that")
			w.probed(probe.Readiness, "s", 0, probe.Success)
			assert.True(t, w.pod.Status().InitContainers[0].Ready)
		},
		"a sidecar that fails its liveness probe starts again while the others run": func(t *testing.T) {
			w := newWorld(t, never, one(live(sidecar("s"))), containers("m"))
			w.expect("start s 0")
			w.expect("start m 0", "probe s 0 Liveness")
			w.probed(probe.Liveness, "s", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe s 0 Liveness")
			w.probed(probe.Liveness, "s", 0, probe.Failure)
			w.expect("terminate s 0")
			w.exit("s", 143)
			w.expect("start s 1")
			w.events(
				"s Warning Unhealthy: Liveness probe failed: said so",
				"s Normal Killing: Init container s failed liveness probe",
			)
		},
		"in a pod that ends only readiness is asked for": func(t *testing.T) {
			w := newWorld(t, always, nil, one(live(ready(named("m")))))
			w.expect("start m 0")
			w.expect("probe m 0 Liveness", "probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Success)
			w.stop(60 * time.Second)
			w.probed(probe.Liveness, "m", 0, probe.Failure)
			w.expect("terminate m 0")
			w.after(10 * time.Second)
			w.expect("probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Failure)
			w.after(10 * time.Second)
			w.expect("probe m 0 Readiness")
			w.probed(probe.Readiness, "m", 0, probe.Failure)
			w.isReady(0, true, false)
			w.events("m Warning Unhealthy: Readiness probe failed: said so")
		},
		"a result of an earlier run is ignored": func(t *testing.T) {
			w := newWorld(t, always, nil, one(ready(named("m"))))
			w.expect("start m 0")
			w.expect("probe m 0 Readiness")
			w.exit("m", 1)
			w.probed(probe.Readiness, "m", 0, probe.Success)
			w.expect("start m 1")
			w.probed(probe.Readiness, "m", 0, probe.Success)
			w.isReady(0, true, false)
			w.expect("probe m 1 Readiness")
			w.probed(probe.Readiness, "m", 1, probe.Success)
			w.isReady(0, true, true)
		},
		"a probe that cannot be tried is told of once and changes nothing": func(t *testing.T) {
			w := newWorld(t, always, nil, one(live(named("m"))))
			w.expect("start m 0")
			for range 5 {
				w.expect("probe m 0 Liveness")
				w.probed(probe.Liveness, "m", 0, probe.Unknown)
				w.after(10 * time.Second)
			}
			w.events("m Warning Unhealthy: Liveness probe errored and resulted in unknown state: said so")
		},
	} {
		t.Run(sentence, story)
	}
}

func TestHooks(t *testing.T) {
	both := func(name string) spool.ContainerOrders {
		return hooks(named(name), lifecycle.PostStart, lifecycle.PreStop)
	}
	for sentence, story := range map[string]func(t *testing.T){
		"a container does not count as running before its postStart hook is over": func(t *testing.T) {
			w := newWorld(t, never, nil, one(ready(both("m"))))
			w.expect("start m 0")
			w.expect("postStart m 0")
			w.expect()
			w.isReady(0, false, false)
			assert.Equal(t, "ContainerCreating", w.main(0).State.Waiting.Reason)
			w.hooked(lifecycle.PostStart, "m", nil)
			assert.NotNil(t, w.main(0).State.Running)
			w.expect("probe m 0 Readiness")
		},
		"a postStart hook holds up the containers after it": func(t *testing.T) {
			w := newWorld(t, never, nil, []spool.ContainerOrders{named("a"), both("b"), named("c")})
			w.expect("start a 0", "start b 0")
			w.expect("postStart b 0")
			w.hooked(lifecycle.PostStart, "b", nil)
			w.expect("start c 0")
		},
		"a sidecar's postStart hook holds up those after it": func(t *testing.T) {
			w := newWorld(t, never, one(hooks(sidecar("s"), lifecycle.PostStart)), containers("m"))
			w.expect("start s 0")
			w.expect("postStart s 0")
			w.expect()
			w.hooked(lifecycle.PostStart, "s", nil)
			w.expect("start m 0")
		},
		"a postStart hook that fails ends the container": func(t *testing.T) {
			w := newWorld(t, onFailure, nil, one(both("m")))
			w.expect("start m 0")
			w.expect("postStart m 0")
			w.hooked(lifecycle.PostStart, "m", errors.New("secret"))
			w.expect("preStop m 0 30s")
			w.hooked(lifecycle.PreStop, "m", nil)
			w.expect("terminate m 0")
			w.exit("m", 143)
			w.expect("start m 1")
			w.events("m Warning FailedPostStartHook: PostStartHook failed", "m Normal Killing: FailedPostStartHook")
		},
		"SIGTERM comes after the preStop hook": func(t *testing.T) {
			w := newWorld(t, always, nil, []spool.ContainerOrders{hooks(named("a"), lifecycle.PreStop), named("b")})
			w.expect("start a 0", "start b 0")
			w.stop(10 * time.Second)
			w.expect("preStop a 0 10s", "terminate b 0")
			w.wakesIn(10 * time.Second)
			w.after(3 * time.Second)
			w.hooked(lifecycle.PreStop, "a", nil)
			w.expect("terminate a 0")
			w.wakesIn(7 * time.Second)
		},
		"a preStop hook leaves the process the least grace": func(t *testing.T) {
			w := newWorld(t, always, nil, one(hooks(named("m"), lifecycle.PreStop)))
			w.expect("start m 0")
			w.stop(10 * time.Second)
			w.expect("preStop m 0 10s")
			w.after(10 * time.Second)
			w.expect("terminate m 0")
			w.hooked(lifecycle.PreStop, "m", errors.New("interrupted"))
			w.wakesIn(2 * time.Second)
			w.after(2 * time.Second)
			w.expect("kill m 0")
			w.events("m Warning FailedPreStopHook: PreStopHook failed")
		},
		"a short grace is the preStop hook's all the same": func(t *testing.T) {
			w := newWorld(t, always, nil, one(hooks(named("m"), lifecycle.PreStop)))
			w.expect("start m 0")
			w.stop(time.Second)
			w.expect("preStop m 0 1s")
			w.hooked(lifecycle.PreStop, "m", nil)
			w.expect("terminate m 0")
			w.wakesIn(2 * time.Second)
		},
		"there is no preStop hook without grace": func(t *testing.T) {
			w := newWorld(t, always, nil, one(hooks(named("m"), lifecycle.PreStop)))
			w.expect("start m 0")
			w.stop(0)
			w.expect("terminate m 0")
		},
		"nor for a container that ends by itself": func(t *testing.T) {
			w := newWorld(t, always, nil, one(hooks(named("m"), lifecycle.PreStop)))
			w.expect("start m 0")
			w.exit("m", 1)
			w.expect("start m 1")
		},
		"a sidecar's preStop hook does not wait for its turn": func(t *testing.T) {
			w := newWorld(t, never, one(hooks(sidecar("s"), lifecycle.PreStop)), containers("m"))
			w.expect("start s 0")
			w.expect("start m 0")
			w.stop(10 * time.Second)
			w.expect("preStop s 0 10s", "terminate m 0")
			w.hooked(lifecycle.PreStop, "s", nil)
			w.expect()
			w.exit("m", 143)
			w.expect("terminate s 0")
		},
		"a stop ends a container whose postStart hook runs": func(t *testing.T) {
			w := newWorld(t, always, nil, one(hooks(named("m"), lifecycle.PostStart)))
			w.expect("start m 0")
			w.expect("postStart m 0")
			w.stop(10 * time.Second)
			w.expect("terminate m 0")
			w.exit("m", 143)
			w.hooked(lifecycle.PostStart, "m", errors.New("interrupted"))
			w.expect()
			w.finished(true)
			w.events()
		},
	} {
		t.Run(sentence, story)
	}
}

func TestTheNewestEventsAreKept(t *testing.T) {
	w := newWorld(t, always, nil, one(ready(named("m"))))
	w.expect("start m 0")
	for i := range 40 {
		outcome := probe.Failure
		if i%2 == 1 {
			outcome = probe.Success
		}
		w.expect("probe m 0 Readiness")
		w.pod.Probed(probe.Readiness, "m", 0, time.Unix(2000, 0), probe.Result{Outcome: outcome, Message: strings.Repeat("é", 1000)})
		w.after(10 * time.Second)
	}
	events := w.pod.Status().Events
	assert.Len(t, events, 16)
	seen := map[time.Time]bool{}
	for _, e := range events {
		assert.False(t, seen[e.Time], "the time names the Event")
		seen[e.Time] = true
		assert.LessOrEqual(t, len(e.Message), 1024)
		assert.True(t, strings.HasSuffix(e.Message, "é"))
	}
}
