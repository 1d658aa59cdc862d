package launch

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// The exit codes of a container that was asked to end.
const (
	codeTerminated = 128 + 15
	codeKilled     = 128 + 9
)

// lastPod is what is known of a slot's last pod.
type lastPod struct {
	slot    int
	status  spool.PodStatus
	stopped bool // the node asked for its end
}

// Outcome is how the allocation of a gang's directory ended, agents being the highest exit
// code of its agents. What cannot be read counts for nothing.
func Outcome(dir spool.Dir, agents int, now time.Time) (spool.Result, error) {
	var g spool.Gang
	_, err := spool.Read(dir.Gang(), &g)
	return outcome(agents, lastPods(dir, g), now), err
}

// outcome is how an allocation ended. Agents that failed have the last word;
// otherwise it is the highest exit code of the last pods, so that the site's
// accounting shows what the user's program returned. A container that ended by
// the very signals that a stop sends has not failed: Kubernetes stops the workers
// of a gang whose launcher has succeeded.
func outcome(agents int, pods []lastPod, now time.Time) spool.Result {
	r := spool.Result{Finished: now}
	for _, p := range pods {
		code, what := p.failure()
		if code > r.ExitCode {
			r.ExitCode = code
			r.Message = fmt.Sprintf("slot %d: %s", p.slot, what)
		}
	}
	if agents != 0 {
		r.ExitCode = agents
		r.Message = fmt.Sprintf("the agents ended with exit code %d", agents)
	}
	return r
}

// failure returns the pod's exit code, 0 if it has not failed, and what it is of.
func (p lastPod) failure() (code int, what string) {
	if p.status.Reason != "" {
		return 1, p.status.Reason + ": " + p.status.Message
	}
	containers := p.status.Containers
	if p.status.Started.IsZero() || !anyEnded(containers) {
		// An init container may have kept the others from starting.
		containers = append(containers[:len(containers):len(containers)], p.status.InitContainers...)
	}
	for _, c := range containers {
		end := c.State.Terminated
		if end == nil || p.stopped && (end.ExitCode == codeTerminated || end.ExitCode == codeKilled) {
			continue
		}
		if int(end.ExitCode) > code {
			code, what = int(end.ExitCode), fmt.Sprintf("container %q ended with exit code %d", c.Name, end.ExitCode)
		}
	}
	return code, what
}

func anyEnded(containers []corev1.ContainerStatus) bool {
	for _, c := range containers {
		if c.State.Terminated != nil {
			return true
		}
	}
	return false
}

// lastPods reads what the agents said last and what the node wanted. A slot that
// cannot be read says nothing.
func lastPods(dir spool.Dir, g spool.Gang) []lastPod {
	var pods []lastPod
	for k := range g.Slots {
		var status spool.Status
		if _, err := spool.Read(dir.Status(k), &status); err != nil || status.Pod == nil {
			continue
		}
		var desired spool.Desired
		_, err := spool.Read(dir.Desired(k), &desired)
		stop := err == nil && desired.PodUID == status.Pod.UID && desired.Action == spool.ActionStop
		pods = append(pods, lastPod{slot: k, status: *status.Pod, stopped: stop || g.Release})
	}
	return pods
}
