package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/gangs"
)

// Facts are what is known. What is nil or empty does not exist, or could not be read; one of
// Gang, TrainJob and JobSet is there.
type Facts struct {
	// Now is the time, in the zone of the reader.
	Now time.Time
	// Gang is the gang in question; Pod is its pod if that alone is asked for.
	Gang *gangs.Gang
	Pod  *gangs.Pod
	// TrainJob and JobSet are the gang's owners.
	TrainJob *v1alpha1.TrainJob
	JobSet   *jobset.JobSet
	// JobSetUnread tells that there may be a JobSet, which could not be read.
	JobSetUnread bool
	// Events of the namespace.
	Events []corev1.Event
}

// Explanation is the answer. It is also what the plugin prints as JSON and YAML.
type Explanation struct {
	Namespace string      `json:"namespace"`
	Object    string      `json:"object"` // "pod/pi-0"
	State     gangs.State `json:"state"`
	Reason    string      `json:"reason,omitempty"`
	JobID     string      `json:"jobID,omitempty"`
	// Since is when the state began, as far as it is known.
	Since *metav1.Time `json:"since,omitempty"`
	// ExpectedStart is the workload manager's own guess.
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
	// Says is what the workload manager, the scheduler or the node says.
	Says string `json:"says,omitempty"`
	// Helps is what can be done.
	Helps string `json:"helps,omitempty"`
	// Text is all of it in one paragraph.
	Text string `json:"text"`
}

// Explain makes the answer.
func Explain(f Facts) Explanation {
	var e Explanation
	if f.Gang != nil {
		e = f.ofGang()
	} else {
		e = f.ofOwner()
	}
	if warning := f.warning(e); warning != "" {
		e.Text += " " + warning
	}
	if e.Helps != "" {
		e.Text += " What helps: " + sentence(e.Helps)
	}
	return e
}

// subject is a gang, or one pod of it, whose state is to be told.
type subject struct {
	Facts
	Explanation
	pod  gangs.Pod // the one that decides
	many bool      // it is about several pods
}

func (f Facts) ofGang() Explanation {
	g := f.Gang
	s := subject{Facts: f, pod: g.Deciding(), many: len(g.Pods) > 1}
	s.Namespace, s.Object, s.State, s.Reason, s.Says, s.JobID = g.Namespace, g.Ref(), g.State, g.Reason, g.Message, g.JobID
	name := fmt.Sprintf("%s %s", g.Kind, g.Name)
	if g.Size > 1 {
		name += fmt.Sprintf(" (%d pods)", g.Size)
	}
	if p := f.Pod; p != nil {
		s.pod, s.many = *p, false
		s.Object, s.State, s.Reason, s.Says = "pod/"+p.Name, p.State, p.Reason, p.Message
		name = "Pod " + p.Name + ofGang(*g, *p)
	}
	s.Says, _, _ = strings.Cut(s.Says, expected)
	s.Says = strings.TrimSpace(s.Says)
	s.Since = since(s.State, *g, s.pod.Object)
	if s.State == gangs.Queued {
		s.ExpectedStart = g.ExpectedStart
	}
	s.Helps = helps(s)
	s.Text = name + " " + s.clause()
	if f.Pod == nil {
		s.Text += f.owners()
	}
	return s.Explanation
}

// ofGang says whose a pod is, and its place.
func ofGang(g gangs.Gang, p gangs.Pod) string {
	switch {
	case g.Kind == "Pod":
		return ""
	case p.Rank == nil:
		return fmt.Sprintf(" (%s)", g.Ref())
	}
	return fmt.Sprintf(" (%s, rank %d of %d)", g.Ref(), *p.Rank, g.Size)
}

// expected begins the part of a message that says when a job is expected to start, which is
// told in the reader's own time.
const expected = "; expected to start at "

// freshWarning is how old a Warning may be that is still told.
const freshWarning = time.Hour

// warning is the last Warning Event, unless it says what was said already.
func (f Facts) warning(e Explanation) string {
	if e.State == gangs.Completed {
		return ""
	}
	var last *corev1.Event
	for i, event := range f.Events {
		if event.Type != corev1.EventTypeWarning || !f.about(event) || f.Now.Sub(eventTime(event)) > freshWarning {
			continue
		}
		if last == nil || eventTime(*last).Before(eventTime(event)) {
			last = &f.Events[i]
		}
	}
	if last == nil || said(e.Text, last.Message) {
		return ""
	}
	return fmt.Sprintf("The last warning is from %s (%s): %s", f.when(eventTime(*last)), last.Reason, sentence(last.Message))
}

// said tells whether a text has the message already, or its beginning.
func said(text, message string) bool {
	const beginning = 40
	message = strings.TrimSpace(message)
	return strings.Contains(text, message[:min(len(message), beginning)])
}

// about tells whether an Event is about what is explained: the pod, or else any pod of the
// gang, and the owners. A Job of a JobSet is known by its name alone.
func (f Facts) about(e corev1.Event) bool {
	of := e.InvolvedObject
	switch {
	case f.Pod != nil:
		return of.UID == f.Pod.Object.UID
	case f.TrainJob != nil && of.UID == f.TrainJob.UID, f.JobSet != nil && of.UID == f.JobSet.UID:
		return true
	case of.Kind == "Job" && f.JobSet != nil:
		return strings.HasPrefix(of.Name, f.JobSet.Name+"-") && !e.CreationTimestamp.Before(&f.JobSet.CreationTimestamp)
	case f.Gang == nil:
		return false
	}
	for _, p := range f.Gang.Pods {
		if of.UID == p.Object.UID {
			return true
		}
	}
	return false
}

func eventTime(e corev1.Event) time.Time {
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text != "" && !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}
