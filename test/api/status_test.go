package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestStatuses(t *testing.T) {
	const now = "'2026-05-01T15:20:00Z'"
	condition := func(more string) string {
		return "{conditions: [{type: Failed, status: 'True', reason: R, message: m, lastTransitionTime: " + now + more + "}]}"
	}
	counts := func(name, ready string) string {
		return "{name: " + name + ", ready: " + ready + ", succeeded: 0, failed: 0, active: 0, suspended: 0}"
	}
	trainer := func(section string) string {
		return "{trainerStatus: {lastUpdatedTime: " + now + ", " + section + "}}"
	}
	for name, r := range map[string]rule{
		"a status is not empty": {
			bad: []string{"{}"}, words: "status: Invalid value: 0:  in body should have at least 1 properties",
		},
		"there are at most 8 conditions": {
			good: []string{"{conditions: " + list(8, "{type: C%d, status: 'True', reason: R, message: m, lastTransitionTime: "+now+"}") + "}"},
			bad:  []string{"{conditions: " + list(9, "{type: C%d, status: 'True', reason: R, message: m, lastTransitionTime: "+now+"}") + "}"}, words: "status.conditions: Too many: 9: must have at most 8 items",
		},
		"conditions have different types": {
			bad: []string{"{conditions: " + list(2, "{type: C, status: 'True', reason: R, message: m, lastTransitionTime: "+now+"}") + "}"}, words: `status.conditions[1]: Duplicate value: {"type":"C"}`,
		},
		"a condition's generation is not negative": {
			good: []string{condition(", observedGeneration: 0")},
			bad:  []string{condition(", observedGeneration: -1")}, words: "conditions[0].observedGeneration in body should be greater than or equal to 0",
		},
		"there are the counts of at most 100 replicated jobs": {
			good: []string{"{jobsStatus: " + list(100, counts("j%d", "0")) + "}"},
			bad:  []string{"{jobsStatus: " + list(101, counts("j%d", "0")) + "}"}, words: "status.jobsStatus: Too many: 101: must have at most 100 items",
		},
		"replicated jobs have different names": {
			bad: []string{"{jobsStatus: " + list(2, counts("j", "0")) + "}"}, words: `status.jobsStatus[1]: Duplicate value: {"name":"j"}`,
		},
		"all counts are required": {
			bad: []string{"{jobsStatus: [{name: j, ready: 1}]}"}, words: "status.jobsStatus[0].suspended: Required value",
		},
		"counts are not negative": {
			bad: []string{"{jobsStatus: [" + counts("j", "-1") + "]}"}, words: "jobsStatus[0].ready in body should be greater than or equal to 0",
		},
		"a replicated job's name has at most 253 characters": {
			good: []string{"{jobsStatus: [" + counts(text(253), "0") + "]}"},
			bad:  []string{"{jobsStatus: [" + counts(text(254), "0") + "]}"}, words: "status.jobsStatus[0].name: Too long: may not be more than 253 bytes",
		},
		"a replicated job's name is not empty": {
			bad: []string{"{jobsStatus: [" + counts("''", "0") + "]}"}, words: "jobsStatus[0].name in body should be at least 1 chars long",
		},
		"what the training says has a time": {
			good:  []string{"{trainerStatus: {lastUpdatedTime: " + now + "}}"},
			bad:   []string{"{trainerStatus: {}}", "{trainerStatus: {progressPercentage: 5}}", "{trainerStatus: {lastUpdatedTime: null}}"},
			words: "lastUpdatedTime is required when trainerStatus is present",
		},
		"progress is at least 0": {
			good: []string{trainer("progressPercentage: 0"), trainer("progressPercentage: 100")},
			bad:  []string{trainer("progressPercentage: -1")}, words: "trainerStatus.progressPercentage in body should be greater than or equal to 0",
		},
		"progress is at most 100": {
			bad: []string{trainer("progressPercentage: 101")}, words: "trainerStatus.progressPercentage in body should be less than or equal to 100",
		},
		"the remaining time is not negative": {
			good: []string{trainer("estimatedRemainingSeconds: 0")},
			bad:  []string{trainer("estimatedRemainingSeconds: -1")}, words: "trainerStatus.estimatedRemainingSeconds in body should be greater than or equal to 0",
		},
		"there are at most 256 metrics, which may be equal": {
			good: []string{trainer("metrics: " + list(256, "{name: loss, value: '1'}"))},
			bad:  []string{trainer("metrics: " + list(257, "{name: loss, value: '1'}"))}, words: "status.trainerStatus.metrics: Too many: 257: must have at most 256 items",
		},
		"a metric's name has at most 64 characters": {
			good: []string{trainer("metrics: [{name: " + text(64) + ", value: '1'}]")},
			bad:  []string{trainer("metrics: [{name: " + text(65) + ", value: '1'}]")}, words: "status.trainerStatus.metrics[0].name: Too long: may not be more than 64 bytes",
		},
		"a metric's name is not empty": {
			bad: []string{trainer("metrics: [{name: '', value: '1'}]")}, words: "trainerStatus.metrics[0].name in body should be at least 1 chars long",
		},
		"a metric's value has at most 64 characters": {
			good: []string{trainer("metrics: [{name: a, value: " + text(64) + "}]")},
			bad:  []string{trainer("metrics: [{name: a, value: " + text(65) + "}]")}, words: "status.trainerStatus.metrics[0].value: Too long: may not be more than 64 bytes",
		},
		"a metric's value is not empty": {
			bad: []string{trainer("metrics: [{name: a, value: ''}]")}, words: "trainerStatus.metrics[0].value in body should be at least 1 chars long",
		},
		"a metric has a value": {
			bad: []string{trainer("metrics: [{name: a}]")}, words: "status.trainerStatus.metrics[0].value: Required value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := func(status string) error {
				o := create(t, trainJob("{runtimeRef: {name: r}}"))
				o.Object["status"] = object(t, "{kind: TrainJob, status: "+status+"}").Object["status"]
				return apiServer.Status().Update(t.Context(), o, client.DryRunAll)
			}
			for _, status := range r.good {
				require.NoError(t, set(status), status)
			}
			for _, status := range r.bad {
				refused(t, set(status), r.words)
			}
		})
	}
}

func TestStatusIsASubresource(t *testing.T) {
	o := create(t, "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, spec: {runtimeRef: {name: r}}, "+
		"status: {jobsStatus: [{name: j, ready: 1, succeeded: 0, failed: 0, active: 0, suspended: 0}]}}")
	require.NotContains(t, o.Object, "status", "a status that comes with the object is dropped")

	o.Object["status"] = map[string]any{"jobsStatus": []any{}}
	spec := o.Object["spec"].(map[string]any)
	spec["suspend"] = true
	require.NoError(t, apiServer.Status().Update(t.Context(), o))
	require.Contains(t, o.Object, "status")
	require.Equal(t, false, o.Object["spec"].(map[string]any)["suspend"], "a spec that comes with the status is dropped")
}
