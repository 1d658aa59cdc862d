package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/gangs"
)

// queueLabel is Kueue's, on what it admits.
const queueLabel = "kueue.x-k8s.io/queue-name"

// owners says what a gang's owners add to what its pods say, with a space before.
func (f Facts) owners() string {
	text := ""
	if js := f.JobSet; js != nil && js.Status.Restarts > 0 {
		text += fmt.Sprintf(" Its JobSet has been restarted %s.", times(int(js.Status.Restarts)))
	}
	if c := f.verdict(); c != nil && c.Type == v1alpha1.TrainJobFailed {
		text += " " + c.text
	}
	return text
}

// verdict is how an owner has ended.
type verdict struct {
	metav1.Condition
	text string
}

// verdict finds the condition by which the TrainJob, or the JobSet, has ended; nil while none has.
func (f Facts) verdict() *verdict {
	find := func(kind, name string, conditions []metav1.Condition, types ...string) *verdict {
		for _, t := range types {
			c := meta.FindStatusCondition(conditions, t)
			if c == nil || c.Status != metav1.ConditionTrue {
				continue
			}
			text := fmt.Sprintf("%s %s is %s since %s (%s)", kind, name, strings.ToLower(t), f.when(c.LastTransitionTime.Time), c.Reason)
			return &verdict{Condition: *c, text: text + says(c.Message)}
		}
		return nil
	}
	if tj := f.TrainJob; tj != nil {
		if v := find("TrainJob", tj.Name, tj.Status.Conditions, v1alpha1.TrainJobFailed, v1alpha1.TrainJobComplete); v != nil {
			return v
		}
	}
	if js := f.JobSet; js != nil {
		return find("JobSet", js.Name, js.Status.Conditions, string(jobset.JobSetFailed), string(jobset.JobSetCompleted))
	}
	return nil
}

// elsewhere is what helps those who have not said where their pods are to run.
const elsewhere = "if it is to run on the HPC side, make it anew with the annotation gangline.dev/cluster, or with a runtime that has it"

// ofOwner explains a TrainJob or JobSet that has no pods.
func (f Facts) ofOwner() Explanation {
	e := Explanation{State: gangs.NoPods}
	kind, name, created := "JobSet", "", metav1.Time{}
	queue := ""
	suspended := false
	if js := f.JobSet; js != nil {
		e.Namespace, name, created = js.Namespace, js.Name, js.CreationTimestamp
		suspended, queue = ptr.Deref(js.Spec.Suspend, false), js.Labels[queueLabel]
	}
	if tj := f.TrainJob; tj != nil {
		kind, e.Namespace, name, created = "TrainJob", tj.Namespace, tj.Name, tj.CreationTimestamp
		suspended = suspended || ptr.Deref(tj.Spec.Suspend, false)
		if q := tj.Labels[queueLabel]; q != "" {
			queue = q
		}
	}
	e.Object, e.Since = strings.ToLower(kind)+"/"+name, &created
	if v := f.verdict(); v != nil {
		e.State, e.Reason, e.Says, e.Since = gangs.Failed, v.Reason, v.Message, &v.LastTransitionTime
		if v.Type != v1alpha1.TrainJobFailed {
			e.State = gangs.Completed
		}
		e.Text = v.text + " It has no pods."
		return e
	}
	subject := kind + " " + name
	age := fmt.Sprintf("was created at %s", f.when(created.Time))
	switch {
	case suspended:
		e.State = gangs.Suspended
		e.Text = fmt.Sprintf("%s %s and is suspended: it has no pods, and no job.", subject, age)
		if queue != "" {
			e.Text += fmt.Sprintf(" It is in Kueue's queue %s, which has not admitted it.", queue)
			e.Helps = kueueWaits
		} else {
			e.Helps = fmt.Sprintf("resume it (kubectl patch %s %s --type=merge -p '{\"spec\":{\"suspend\":false}}')", strings.ToLower(kind), name)
		}
	case f.JobSet == nil && f.JobSetUnread:
		e.Text = fmt.Sprintf("%s %s. Its JobSet may not be read, and none of its pods is on a virtual node.", subject, age)
		e.Helps = elsewhere
	case f.JobSet == nil:
		e.Text = fmt.Sprintf("%s %s and has no JobSet.", subject, age)
		if c := lastCondition(f.TrainJob.Status.Conditions); c != nil {
			e.Reason, e.Says = c.Reason, c.Message
			e.Text += " Its condition " + c.Type + " says" + says(c.Message)
		} else if f.Now.Sub(created.Time) > soon {
			e.Helps = "ask the cluster's administrator whether gangline-controller runs"
		}
	default:
		e.Text = fmt.Sprintf("%s %s and has no pods on a virtual node.", subject, age)
		if f.Now.Sub(created.Time) > soon {
			e.Helps = "see what its Jobs say (kubectl describe jobs -l " + jobset.JobSetNameKey + "=" + f.JobSet.Name + "); " + elsewhere
		}
	}
	return e
}

// lastCondition is the one that changed last.
func lastCondition(list []metav1.Condition) *metav1.Condition {
	var last *metav1.Condition
	at := time.Time{}
	for i, c := range list {
		if c.LastTransitionTime.After(at) || last == nil {
			last, at = &list[i], c.LastTransitionTime.Time
		}
	}
	return last
}
