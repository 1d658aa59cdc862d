package provider

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
)

// jobSets join the pods of a JobSet's stage.
type jobSets struct{ *owners }

func (o jobSets) member(ctx context.Context, pod *corev1.Pod) (membership, bool, error) {
	job, gone, err := o.jobOf(ctx, pod)
	if err != nil || gone {
		return orphan(pod), gone, err
	}
	ref := metav1.GetControllerOf(job)
	if ref == nil || ref.Kind != "JobSet" || ref.APIVersion != jobset.SchemeGroupVersion.String() {
		return membership{}, false, nil
	}
	js := &jobset.JobSet{}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
	if gone, err := o.get(ctx, name, js, ref.UID); err != nil || gone {
		return orphan(pod), gone, err
	}
	role, ok := translate.JobSetRole(job.Labels, pod)
	if !ok {
		return membership{}, false, nil
	}
	stage, ok := translate.Stage(js, role.Group)
	return membership{key: translate.JobSetKey(js, stage), role: role, owner: name}, ok, nil
}

func (o jobSets) declare(ctx context.Context, s *state, rest string, owner types.NamespacedName, options translate.Options) error {
	uid, stage, _ := strings.Cut(rest, "/")
	index, err := strconv.Atoi(stage)
	if err != nil {
		return fmt.Errorf("reading the stage: %w", err)
	}
	js := &jobset.JobSet{}
	if owner.Name == "" {
		s.owner.gone = true
		return nil
	}
	if gone, err := o.get(ctx, owner, js, types.UID(uid)); err != nil || gone {
		s.owner.gone = gone
		return err
	}
	s.takes(translate.Declaration{
		Gang:      translate.JobSetGang(js, index, options),
		Gone:      js.DeletionTimestamp != nil,
		Suspended: ptr.Deref(js.Spec.Suspend, false),
		Finished:  jobSetFinished(js),
	})
	return nil
}

func jobSetFinished(js *jobset.JobSet) bool {
	for _, c := range js.Status.Conditions {
		final := c.Type == string(jobset.JobSetCompleted) || c.Type == string(jobset.JobSetFailed)
		if final && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}
