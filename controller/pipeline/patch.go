package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/strategicpatch"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// patchedTemplate merges the patches into a copy of the template, in list
// order whatever their times, by Kubernetes' strategic merge. That may reorder
// the replicated jobs, and MPI's hostfile and dependsOn need the runtime's
// order, so it is put back.
func patchedTemplate(spec jobsetv1alpha2.JobSetSpec, patches []v1alpha1.RuntimePatch) (*jobsetv1alpha2.JobSetSpec, error) {
	merged := spec.DeepCopy()
	for _, patch := range patches {
		t := templateOf(patch)
		if t == nil || t.Spec == nil {
			continue
		}
		next, err := merge(merged, t.Spec)
		if err != nil {
			return nil, fmt.Errorf("merging the runtimePatch of manager %q: %w", patch.Manager, err)
		}
		merged = next
	}
	at := make(map[string]int, len(spec.ReplicatedJobs))
	for i, job := range spec.ReplicatedJobs {
		at[job.Name] = i
	}
	slices.SortStableFunc(merged.ReplicatedJobs, func(a, b jobsetv1alpha2.ReplicatedJob) int {
		return cmp.Compare(at[a.Name], at[b.Name])
	})
	return merged, nil
}

func templateOf(patch v1alpha1.RuntimePatch) *v1alpha1.JobSetTemplatePatch {
	if patch.TrainingRuntimeSpec == nil {
		return nil
	}
	return patch.TrainingRuntimeSpec.Template
}

func merge(spec *jobsetv1alpha2.JobSetSpec, patch *v1alpha1.JobSetSpecPatch) (*jobsetv1alpha2.JobSetSpec, error) {
	original, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	change, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	result, err := strategicpatch.StrategicMergePatch(original, change, jobsetv1alpha2.JobSetSpec{})
	if err != nil {
		return nil, err
	}
	merged := &jobsetv1alpha2.JobSetSpec{}
	return merged, json.Unmarshal(result, merged)
}
