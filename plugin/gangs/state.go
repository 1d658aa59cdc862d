package gangs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// State is how far a pod or a gang is.
type State string

// The states in their order: a gang is as far as the furthest of its pods that have not
// ended.
const (
	Unscheduled State = "Unscheduled" // Kubernetes has not bound it to a node
	Forming     State = "Forming"     // the gang is not complete, or has no place yet
	Submitting  State = "Submitting"  // the workload manager has not taken the job yet
	Queued      State = "Queued"      // the job waits in the workload manager's queue
	Starting    State = "Starting"    // the job has its nodes; the processes do not all run yet
	Running     State = "Running"
	Stopping    State = "Stopping" // it was deleted, and has not ended yet
	Completed   State = "Completed"
	Failed      State = "Failed"
	Refused     State = "Refused" // it can never run here

	// Of what has no pods: a TrainJob or JobSet.
	Suspended State = "Suspended"
	NoPods    State = "NoPods"
)

// order are the states of pods that have not ended, the least far first.
var order = []State{Unscheduled, Forming, Submitting, Queued, Starting, Running}

// Ended tells that nothing runs nor will.
func (s State) Ended() bool { return s == Completed || s == Failed || s == Refused }

// states maps the reasons of waiting pods (package wellknown) to states; with any other,
// or none, the pod's containers are being started.
var states = map[string]State{
	wellknown.ReasonWaitingForGang:       Forming,
	wellknown.ReasonWaitingForSlot:       Forming,
	wellknown.ReasonOwnerGone:            Forming,
	wellknown.ReasonSubmitting:           Submitting,
	wellknown.ReasonSubmissionFailed:     Submitting,
	wellknown.ReasonWaitingForDependency: Submitting,
	wellknown.ReasonSiteUnreachable:      Submitting,
	wellknown.ReasonNoHPCUser:            Submitting,
	wellknown.ReasonQueued:               Queued,
}

// StateOf is how far a pod is, and its reason and message for that.
func StateOf(pod *corev1.Pod) (state State, reason, message string) {
	reason, message = pod.Status.Reason, pod.Status.Message
	if why, rejected := strings.CutPrefix(message, wellknown.Rejected); rejected {
		return Refused, reason, why
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		return Completed, reason, message
	case corev1.PodFailed:
		return failed(pod)
	}
	if pod.DeletionTimestamp != nil {
		return Stopping, reason, message
	}
	if pod.Status.Phase == corev1.PodRunning {
		waiting := waits(pod)
		return Running, cmp.Or(reason, waiting.Reason), cmp.Or(message, waiting.Message)
	}
	if pod.Spec.NodeName == "" {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				return Unscheduled, c.Reason, c.Message
			}
		}
		return Unscheduled, reason, message
	}
	if reason == "" && pod.Annotations[wellknown.AnnotationGang] == "" {
		return Forming, "", "" // the node has not looked at it yet
	}
	if s, ok := states[reason]; ok {
		return s, reason, message
	}
	waiting := waits(pod)
	return Starting, cmp.Or(reason, waiting.Reason), cmp.Or(message, waiting.Message)
}

// waits is why a container of a pod waits, if one does.
func waits(pod *corev1.Pod) corev1.ContainerStateWaiting {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil {
			return *c.State.Waiting
		}
	}
	return corev1.ContainerStateWaiting{}
}

// failed is why a pod has failed: its own reason, or its container's.
func failed(pod *corev1.Pod) (State, string, string) {
	if pod.Status.Reason != "" {
		return Failed, pod.Status.Reason, pod.Status.Message
	}
	name, end := FailedContainer(pod)
	if end == nil {
		return Failed, "", pod.Status.Message
	}
	message := fmt.Sprintf("container %s ended with exit code %d", name, end.ExitCode)
	if end.Message != "" {
		message += ": " + strings.TrimSpace(end.Message)
	}
	return Failed, cmp.Or(end.Reason, "Error"), message
}

// FailedContainer is the container whose end failed a pod: the first to end with another
// exit code than 0. The end is nil where there is none.
func FailedContainer(pod *corev1.Pod) (name string, first *corev1.ContainerStateTerminated) {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		end := c.State.Terminated
		if end == nil || end.ExitCode == 0 {
			continue
		}
		if first == nil || end.FinishedAt.Before(&first.FinishedAt) {
			name, first = c.Name, end
		}
	}
	return name, first
}

// decide finds the gang's state, and the pod that says why.
func (g *Gang) decide() {
	is := func(s State) bool { return slices.ContainsFunc(g.Pods, func(p Pod) bool { return p.State == s }) }
	for _, s := range slices.Concat([]State{Completed, Failed, Refused, Stopping}, order) {
		if is(s) {
			g.State = s // the last one counts
		}
	}
	p := g.Deciding()
	g.Reason, g.Message = p.Reason, p.Message
}

// Deciding is the pod whose reason is the gang's: the first in the gang's state that has
// one; of those that have failed, the one that did so first: the others may have failed for
// its sake.
func (g *Gang) Deciding() Pod {
	if p := g.FirstFailed(); g.State == Failed && p != nil {
		return *p
	}
	of := slices.DeleteFunc(slices.Clone(g.Pods), func(p Pod) bool { return p.State != g.State })
	if i := slices.IndexFunc(of, func(p Pod) bool { return p.Reason != "" }); i >= 0 {
		return of[i]
	}
	return of[0]
}

// FirstFailed is the pod that has failed first, nil if none has.
func (g *Gang) FirstFailed() *Pod {
	var first *Pod
	for i, p := range g.Pods {
		if p.State != Failed {
			continue
		}
		if first == nil || earlier(p.Object, first.Object) {
			first = &g.Pods[i]
		}
	}
	return first
}

func earlier(a, b *corev1.Pod) bool {
	_, x := FailedContainer(a)
	_, y := FailedContainer(b)
	return x != nil && y != nil && x.FinishedAt.Before(&y.FinishedAt)
}

// managerWords finds the workload manager's own reason in a message of the node's:
// "Slurm job 7 is PENDING (Priority): …".
var managerWords = regexp.MustCompile(`^\S+ job \S+ is \S+ \(([^)]+)\)`)

// ShortReason is the reason in a word, for a table.
func (g Gang) ShortReason() string {
	switch g.Reason {
	case wellknown.ReasonQueued:
		if found := managerWords.FindStringSubmatch(g.Message); found != nil {
			return found[1]
		}
		return ""
	case wellknown.ReasonWaitingForGang:
		count, _, _ := strings.Cut(g.Message, ";")
		if strings.HasSuffix(count, " pods") {
			return count
		}
	case string(g.State):
		return ""
	}
	return g.Reason
}
