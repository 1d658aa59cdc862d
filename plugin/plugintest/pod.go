// Package plugintest builds pods as the virtual node leaves them, for the plugin's tests:
//
//	Pod("pi-0").Gang("jobset/u/0", "JobSet/pi").On("hpc").Says("Queued", "…").Obj()
//
// It is for tests alone; nothing else may import it.
package plugintest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// Builder builds a pod.
type Builder struct {
	pod *corev1.Pod
}

// Pod starts a pod of one container, "main", that tolerates the virtual node's taint, and
// that nobody has looked at.
func Pod(name string) *Builder {
	b := &Builder{pod: translatetest.MakePod(name).Obj()}
	b.pod.Spec.Tolerations = []corev1.Toleration{{Key: wellknown.TaintKey, Operator: corev1.TolerationOpExists}}
	b.pod.Status.Phase = corev1.PodPending
	return b
}

// Obj returns the pod.
func (b *Builder) Obj() *corev1.Pod { return b.pod.DeepCopy() }

// Namespace moves the pod.
func (b *Builder) Namespace(ns string) *Builder {
	b.pod.Namespace = ns
	return b
}

// Created is when the pod was created.
func (b *Builder) Created(at time.Time) *Builder {
	b.pod.CreationTimestamp = metav1.NewTime(at)
	return b
}

// Label sets a label.
func (b *Builder) Label(name, value string) *Builder {
	metav1.SetMetaDataLabel(&b.pod.ObjectMeta, name, value)
	return b
}

// JobSet is that which the pod is of.
func (b *Builder) JobSet(name string) *Builder { return b.Label(jobset.JobSetNameKey, name) }

// Annotation sets an annotation.
func (b *Builder) Annotation(name, value string) *Builder {
	metav1.SetMetaDataAnnotation(&b.pod.ObjectMeta, name, value)
	return b
}

// Gang is the pod's gang, as the node has noted it.
func (b *Builder) Gang(key, owner string) *Builder {
	return b.Annotation(wellknown.AnnotationGang, key).Annotation(wellknown.AnnotationGangOwner, owner)
}

// Rank is the pod's place.
func (b *Builder) Rank(rank, size string) *Builder {
	return b.Annotation(wellknown.AnnotationRank, rank).Annotation(wellknown.AnnotationSize, size)
}

// Job is the gang's job.
func (b *Builder) Job(id string, submitted time.Time) *Builder {
	return b.Annotation(wellknown.AnnotationJobID, id).Annotation(wellknown.AnnotationAllocation, "allocation-"+id).
		Annotation(wellknown.AnnotationSubmitted, submitted.UTC().Format(time.RFC3339))
}

// Expected is when the job is expected to start.
func (b *Builder) Expected(at time.Time) *Builder {
	return b.Annotation(wellknown.AnnotationExpectedStart, at.UTC().Format(time.RFC3339))
}

// Elsewhere makes it a pod of an ordinary node.
func (b *Builder) Elsewhere() *Builder {
	b.pod.Spec.Tolerations = nil
	return b.On("worker").Phase(corev1.PodRunning)
}

// On binds the pod to a node.
func (b *Builder) On(node string) *Builder {
	b.pod.Spec.NodeName = node
	return b
}

// HPCNode is where the pod runs.
func (b *Builder) HPCNode(name string) *Builder {
	return b.Annotation(wellknown.AnnotationHPCNode, name)
}

// Phase is the pod's.
func (b *Builder) Phase(phase corev1.PodPhase) *Builder {
	b.pod.Status.Phase = phase
	return b
}

// Says is the pod's reason and message.
func (b *Builder) Says(reason, message string) *Builder {
	b.pod.Status.Reason, b.pod.Status.Message = reason, message
	return b
}

// Unscheduled is what the scheduler says of it.
func (b *Builder) Unscheduled(reason, message string) *Builder {
	b.pod.Status.Conditions = append(b.pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
	})
	return b
}

// Gate holds the pod back.
func (b *Builder) Gate(name string) *Builder {
	b.pod.Spec.SchedulingGates = append(b.pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	return b.Unscheduled(corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates")
}

// Deleted has the pod be deleted until a time.
func (b *Builder) Deleted(until time.Time) *Builder {
	at := metav1.NewTime(until)
	b.pod.DeletionTimestamp = &at
	return b
}

// Started has the container run since.
func (b *Builder) Started(at time.Time) *Builder {
	since := metav1.NewTime(at)
	b.pod.Status.StartTime = &since
	b.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", ContainerID: "gangline://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
	}}
	return b
}

// Waiting has the container wait.
func (b *Builder) Waiting(reason, message string) *Builder {
	b.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
	return b
}

// Restarted tells how often the container was, and how its last run ended.
func (b *Builder) Restarted(times int32, at time.Time, code int32) *Builder {
	s := &b.pod.Status.ContainerStatuses[0]
	s.RestartCount, s.ContainerID = times, "gangline://2"
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", FinishedAt: metav1.NewTime(at)}
	return b
}

// Terminated has the container have ended.
func (b *Builder) Terminated(at time.Time, code int32, reason string) *Builder {
	b.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", ContainerID: "gangline://1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(at),
		}},
	}}
	return b
}

// Spec changes the pod's spec.
func (b *Builder) Spec(change func(*corev1.PodSpec)) *Builder {
	change(&b.pod.Spec)
	return b
}
