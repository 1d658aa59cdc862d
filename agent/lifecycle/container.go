package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/agent/probe"
	"github.com/gangline/gangline/provider/spool"
)

// Kubelet's numbers for a container that fails again and again: the first
// restart is at once, the second 10 s after the end, then 20 s, up to 5 min.
// A run that ends more than 10 min after the last restart begins anew.
const (
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
	forgetAfter  = 2 * maxBackOff
)

// Reasons of Kubernetes' own that this package gives.
const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonBackOff      = "CrashLoopBackOff"
	reasonCompleted    = "Completed"
	reasonError        = "Error"
)

type phase int

const (
	idle     phase = iota // never started, or to start as if it never had
	starting              // asked to start
	hooked                // its process runs, and its postStart hook has not returned
	running
	ended
)

// container is one container's part of the state.
type container struct {
	podUID string
	name   string
	orders spool.ContainerOrders
	policy corev1.RestartPolicy // in effect for this container
	kind   kind

	phase      phase
	run        int // counts the runs from 0, as restartCount does
	startedAt  time.Time
	terminated *corev1.ContainerStateTerminated // of the last run that ended
	previous   *corev1.ContainerStateTerminated // of the run before it

	backOff        time.Duration
	backOffUpdated time.Time

	// waitsForBackOff is true while only the back-off keeps it from starting.
	waitsForBackOff bool
	// waitsForImage is true while it cannot start for want of its image.
	waitsForImage bool
	pull          pull
	// condemned tells that a probe ended the last run: it starts again, even if
	// it ended well.
	condemned bool

	// Of the current run.
	probes []*probe.Probe // from when it runs
	hook   hookState      // postStart
	ending ending
}

type kind int

const (
	mainContainer kind = iota
	initContainer
	sidecar
	ephemeralContainer
)

func newContainer(uid string, o spool.ContainerOrders, init bool, pod corev1.RestartPolicy) *container {
	c := &container{podUID: uid, name: o.Name, orders: o, policy: pod}
	if o.RestartPolicy != nil {
		c.policy = corev1.RestartPolicy(*o.RestartPolicy)
	}
	switch {
	case init && o.RestartPolicy != nil && *o.RestartPolicy == corev1.ContainerRestartPolicyAlways:
		c.kind = sidecar
	case init:
		c.kind = initContainer
		if c.policy == corev1.RestartPolicyAlways {
			c.policy = corev1.RestartPolicyOnFailure // an init container that succeeded is done
		}
	}
	return c
}

// RunID names one run of a container among all there ever are.
func RunID(podUID, container string, run int) string {
	return fmt.Sprintf("%s-%s-%d", podUID, container, run)
}

func (c *container) id() string { return "gangline://" + RunID(c.podUID, c.name, c.run) }

// active tells that a run is under way, alive that it has a process.
func (c *container) active() bool { return c.phase == starting || c.alive() }
func (c *container) alive() bool  { return c.phase == hooked || c.phase == running }

// succeeded tells that the last run ended well.
func (c *container) succeeded() bool { return c.phase == ended && c.terminated.ExitCode == 0 }

// letsNextStart tells that the init container after this one may start.
func (c *container) letsNextStart() bool {
	if c.kind == sidecar {
		return c.up()
	}
	return c.succeeded()
}

// due is when an idle or ended container may start: now, or after its back-off.
func (c *container) due(now time.Time) time.Time {
	if c.phase == idle || c.backOff == 0 || c.backOffForgotten() {
		return now
	}
	return c.terminated.FinishedAt.Add(c.backOff)
}

func (c *container) backOffForgotten() bool {
	return c.terminated.FinishedAt.Sub(c.backOffUpdated) > forgetAfter
}

// start notes that the container was asked to start.
func (c *container) start(now time.Time) {
	c.pull.before = start{c.phase, c.run, c.condemned, c.backOff, c.backOffUpdated}
	c.pull.underway = c.orders.InImage != nil
	if c.phase == ended {
		c.raiseBackOff(now)
	}
	if c.terminated != nil {
		c.run++
	}
	c.condemned = false
	c.phase = starting
}

func (c *container) raiseBackOff(now time.Time) {
	if c.backOff == 0 || c.backOffForgotten() {
		c.backOff = firstBackOff
	} else {
		c.backOff = min(2*c.backOff, maxBackOff)
	}
	c.backOffUpdated = now
}

// end notes how a run ended.
func (c *container) end(at time.Time, e Exit) {
	if c.startedAt.IsZero() || c.phase == starting {
		c.startedAt = at // it never ran
	}
	if e.Reason == "" {
		e.Reason = reasonCompleted
		if e.Code != 0 {
			e.Reason = reasonError
		}
	}
	c.previous = c.terminated
	c.terminated = &corev1.ContainerStateTerminated{
		ExitCode:    int32(e.Code), //nolint:gosec // at most 255
		Reason:      e.Reason,
		Message:     e.Message,
		StartedAt:   metav1.NewTime(c.startedAt),
		FinishedAt:  metav1.NewTime(at),
		ContainerID: c.id(),
	}
	c.phase = ended
	c.probes, c.hook, c.ending = nil, hookDue, ending{}
}
