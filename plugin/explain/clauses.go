package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/translate/wellknown"
)

// clause says how far the subject is, to follow its name.
func (s subject) clause() string {
	return map[gangs.State]func() string{
		gangs.Unscheduled: s.unscheduled,
		gangs.Forming:     s.forming,
		gangs.Submitting:  s.submitting,
		gangs.Queued:      s.queued,
		gangs.Starting:    s.starting,
		gangs.Running:     s.running,
		gangs.Stopping:    s.stopping,
		gangs.Completed:   s.completed,
		gangs.Failed:      s.failed,
		gangs.Refused:     s.refused,
	}[s.State]()
}

// since is since when, if that is known.
func (s subject) since() string {
	if s.Since == nil {
		return ""
	}
	return " since " + s.when(s.Since.Time)
}

// says adds somebody's words after a colon, if there are any.
func says(words string) string {
	if words == "" {
		return "."
	}
	return ": " + sentence(words)
}

func (s subject) unscheduled() string {
	if gates := s.pod.Object.Spec.SchedulingGates; len(gates) > 0 {
		var names []string
		for _, g := range gates {
			names = append(names, g.Name)
		}
		return fmt.Sprintf("is held back%s by its scheduling gates (%s): whoever has set them has not let it go yet.", s.since(), strings.Join(names, ", "))
	}
	if s.Says == "" {
		return "waits" + s.since() + " for the Kubernetes scheduler, which has not looked at it yet."
	}
	return "has no node" + s.since() + ". The Kubernetes scheduler says: " + sentence(s.Says)
}

// soon is how long the virtual node may take to look at a pod.
const soon = 30 * time.Second

func (s subject) forming() string {
	switch {
	case s.Reason == wellknown.ReasonWaitingForGang:
		return "waits" + s.since() + " for the rest of its gang" + says(s.Says) + " Nothing is submitted before the gang is complete."
	case s.Reason != "":
		return "waits" + s.since() + " for a place" + says(s.Says)
	case s.Since != nil && s.Now.Sub(s.Since.Time) > soon:
		return fmt.Sprintf("is bound to node %s, which has not looked at it in %s.", s.pod.Object.Spec.NodeName, duration(s.Now.Sub(s.Since.Time)))
	}
	return fmt.Sprintf("has only just been bound to node %s.", s.pod.Object.Spec.NodeName)
}

func (s subject) submitting() string {
	switch s.Reason {
	case wellknown.ReasonWaitingForDependency:
		return "waits" + s.since() + " for another gang" + says(s.Says)
	case wellknown.ReasonSubmitting:
		return "is being handed to the workload manager" + says(s.Says)
	}
	return "is not in the workload manager's queue, and has been waiting" + s.since() + says(s.Says)
}

func (s subject) queued() string {
	text := "waits in the queue" + s.since() + says(s.Says)
	if s.ExpectedStart == nil {
		return text + " The workload manager does not say yet when it expects to start it."
	}
	return text + " It is expected to start at " + s.when(s.ExpectedStart.Time) + ", sooner if others end before their time."
}

func (s subject) starting() string {
	text := "is starting"
	if on := s.pod.HPCNode; on != "" {
		text += " on " + on
	}
	if name := waitingContainer(s.pod.Object); name != "" && s.pod.Object.Status.Reason == "" {
		return text + s.since() + fmt.Sprintf(". Container %s waits (%s)", name, s.Reason) + says(s.Says)
	}
	return text + s.since() + says(s.Says)
}

func (s subject) running() string {
	on := s.pod.HPCNode
	if s.many {
		on = gangs.Hostlist(s.Gang.HPCNodes)
	}
	text := "runs on " + cmp.Or(on, "an HPC node") + s.since()
	if s.JobID != "" {
		text += ", in job " + s.JobID
	}
	text += "."
	if s.many && s.Gang.Ready < s.Gang.Size {
		text += fmt.Sprintf(" %d of its %d pods run or have completed%s.", s.Gang.Ready, s.Gang.Size, s.others())
	}
	for _, c := range s.pod.Object.Status.ContainerStatuses {
		if end := c.LastTerminationState.Terminated; end != nil && c.RestartCount > 0 {
			text += fmt.Sprintf(" Container %s of pod %s has been restarted %s; it last ended at %s with exit code %d (%s).",
				c.Name, s.pod.Name, times(int(c.RestartCount)), s.when(end.FinishedAt.Time), end.ExitCode, end.Reason)
		}
	}
	return text
}

// others names the pods that do not run, a few of them.
func (s subject) others() string {
	const named = 3
	var list []string
	for _, p := range s.Gang.Pods {
		if p.State == gangs.Running || p.State == gangs.Completed {
			continue
		}
		list = append(list, fmt.Sprintf("%s is %s", p.Name, strings.ToLower(string(p.State))))
	}
	if len(list) == 0 {
		return ""
	}
	if len(list) > named {
		list = append(list[:named], fmt.Sprintf("and %d more are not running", len(list)-named))
	}
	return "; " + strings.Join(list, ", ")
}

func (s subject) stopping() string {
	at := s.pod.Object.DeletionTimestamp
	text := "was deleted, and is being stopped"
	if s.Now.After(at.Time) {
		return text + ": it had until " + s.when(at.Time) + " to end by itself." + s.afterwards()
	}
	return text + ": it has until " + s.when(at.Time) + " to end by itself." + s.afterwards()
}

func (s subject) afterwards() string {
	if s.Says == "" {
		return ""
	}
	return " The node says: " + sentence(s.Says)
}

func (s subject) completed() string {
	return "has completed" + s.ended() + "."
}

// ended is when it ended, and after how long.
func (s subject) ended() string {
	if s.Since == nil {
		return ""
	}
	text := " at " + s.when(s.Since.Time)
	if began := s.pod.Object.Status.StartTime; began != nil && began.Before(s.Since) {
		text += ", after " + duration(s.Since.Sub(began.Time))
	}
	return text
}

func (s subject) failed() string {
	text := "has failed" + s.ended()
	if s.many {
		text = fmt.Sprintf("has failed. Pod %s was the first to fail%s", s.pod.Name+place(s.pod), s.ended())
	}
	if s.Reason != "" && s.Reason != "Error" {
		text += " (" + s.Reason + ")"
	}
	return text + says(s.Says) + s.alsoFailed()
}

func place(p gangs.Pod) string {
	if p.Rank == nil {
		return ""
	}
	return fmt.Sprintf(" (rank %d)", *p.Rank)
}

func (s subject) alsoFailed() string {
	n := 0
	for _, p := range s.Gang.Pods {
		if s.many && p.State == gangs.Failed && p.Name != s.pod.Name {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return " One other pod has failed too."
	}
	return fmt.Sprintf(" %d other pods have failed too.", n)
}

func (s subject) refused() string {
	return fmt.Sprintf("was refused (%s), and will never run as it is", s.Reason) + says(s.Says)
}

func waitingContainer(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil {
			return c.Name
		}
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
