package jobset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/trainertest"
)

// JobSet's own rules are those of pkg/webhooks/jobset_webhook.go of v0.12.0.
func TestWhatJobSetWillRefuseIsAWarning(t *testing.T) {
	name := func(length int) string { return strings.Repeat("a", length) }
	job := func(length int, spec string) string {
		return `{metadata: {name: ` + name(length) + `}, spec: {runtimeRef: {name: r}, ` + spec + `}}`
	}
	// The longest name of one pod is <name>-node-0-0-abcde: 15 more characters.
	node := jobs(`      - {name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}`)
	tests := map[string]struct {
		trainJob, runtime string
		want              admission.Warnings
	}{
		"the longest name that fits": {trainJob: job(48, ""), runtime: node},
		"one character too many": {trainJob: job(49, ""), runtime: node, want: admission.Warnings{
			`JobSet will refuse this TrainJob: names like "` + name(49) + `-node-0-0-abcde" have more than 63 characters. Give it a name of at most 48.`,
		}},
		"the number of pods makes names longer": {
			trainJob: job(48, ""), runtime: jobs(`      - {name: node, template: {spec: {parallelism: 11}}}`), want: admission.Warnings{
				`JobSet will refuse this TrainJob: names like "` + name(48) + `-node-0-10-abcde" have more than 63 characters. Give it a name of at most 47.`,
			}},
		"numNodes makes the trainer's names longer": {
			trainJob: job(48, "trainer: {numNodes: 11}"), runtime: node, want: admission.Warnings{
				`JobSet will refuse this TrainJob: names like "` + name(48) + `-node-0-10-abcde" have more than 63 characters. Give it a name of at most 47.`,
			},
		},
		"numNodes counts the trainer's pods, not those of another job": {
			trainJob: job(48, "trainer: {numNodes: 11}"), runtime: jobs(`      - {name: node}`),
		},
		"pods without an index have any name": {
			trainJob: job(49, ""), runtime: jobs(`      - {name: node, template: {spec: {completionMode: NonIndexed}}}`),
		},
		"but their Jobs do not": {
			trainJob: job(57, ""), runtime: jobs(`      - {name: node, template: {spec: {completionMode: NonIndexed}}}`), want: admission.Warnings{
				`JobSet will refuse this TrainJob: names like "` + name(57) + `-node-0" have more than 63 characters. Give it a name of at most 56.`,
			}},
		"a job may depend on one before it": {
			trainJob: job(3, ""), runtime: jobs("      - name: node\n      - {name: launcher, dependsOn: [{name: node, status: Ready}]}"),
		},
		"on no other": {
			trainJob: job(3, ""), runtime: jobs("      - {name: launcher, dependsOn: [{name: node, status: Ready}]}\n      - name: node"),
			want: admission.Warnings{"JobSet will refuse this TrainJob's runtime r: the replicated job launcher depends on node, which does not come before it"},
		},
		"policies aim at jobs that exist": {
			trainJob: job(3, ""), runtime: jobs("      - name: node\n" + `      successPolicy: {operator: All, targetReplicatedJobs: [node, launcher]}
      failurePolicy: {rules: [{name: a, targetReplicatedJobs: [worker]}]}`),
			want: admission.Warnings{
				"JobSet will refuse this TrainJob's runtime r: its successPolicy names the replicated job launcher, which does not exist",
				"JobSet will refuse this TrainJob's runtime r: its failurePolicy names the replicated job worker, which does not exist",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			info, trainJob := trainertest.Info(t, tt.trainJob, tt.runtime)
			warnings, errs := New(nil).Validate(t.Context(), info, nil, trainJob)
			assert.Empty(t, errs)
			assert.Equal(t, tt.want, warnings)
		})
	}
}
