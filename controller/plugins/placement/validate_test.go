package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/trainertest"
)

func TestValidate(t *testing.T) {
	const noLabel = `: Invalid value: "not a label": must be the value of the label gangline.dev/cluster of virtual nodes, and is no label value: ` +
		`a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
		`(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	const bad = `gangline.dev/cluster: not a label`
	tests := map[string]struct {
		namespace, runtime, trainJob string // annotations
		job                          string
		warnings                     admission.Warnings
		errors                       []string
	}{
		"a cluster and wishes":                              {trainJob: `gangline.dev/cluster: alps, gangline.dev/partition: gpu`},
		"neither":                                           {},
		"a bad name, of the TrainJob":                       {trainJob: bad, errors: []string{"metadata.annotations[gangline.dev/cluster]" + noLabel}},
		"a bad name, of the runtime":                        {runtime: bad, errors: []string{"spec.runtimeRef" + noLabel}},
		"a bad name, of the namespace":                      {namespace: bad, errors: []string{"metadata.namespace" + noLabel}},
		"a bad name that the TrainJob has another for":      {namespace: bad, trainJob: `gangline.dev/cluster: alps`},
		"wishes of runtime and namespace without a cluster": {runtime: `gangline.dev/qos: a`, namespace: `gangline.dev/account: a`},
		"slurm-bridge's without a cluster":                  {trainJob: `slurmjob.slinky.slurm.net/partition: a`},
		"wishes of the TrainJob without a cluster": {
			trainJob: `gangline.dev/time-limit: 1h, gangline.dev/partition: gpu`,
			warnings: admission.Warnings{
				"the annotation gangline.dev/partition has no effect: neither the TrainJob nor its runtime nor its namespace names a cluster in the annotation gangline.dev/cluster",
				"the annotation gangline.dev/time-limit has no effect: neither the TrainJob nor its runtime nor its namespace names a cluster in the annotation gangline.dev/cluster",
			},
		},
		"an annotation with a slip of the pen": {
			trainJob: `gangline.dev/cluster: alps, gangline.dev/partitoin: gpu`,
			warnings: admission.Warnings{"the annotation gangline.dev/partitoin has no effect: there is none of this name"},
		},
		"annotations of pods and JobSets": {
			trainJob: `gangline.dev/cluster: alps, gangline.dev/mpi-slots: "2", gangline.dev/rides: "false"`,
			warnings: admission.Warnings{
				"the annotation gangline.dev/mpi-slots has no effect on a TrainJob: spec.trainer.numProcPerNode is the number of MPI processes of a pod",
				"the annotation gangline.dev/rides has no effect on a TrainJob: it belongs on a pod or its JobSet, as in the runtime's template",
			},
		},
		"a cluster without anything to run there": {
			trainJob: `gangline.dev/cluster: alps`, job: `{name: node, ` + other + cpu + `}`,
			warnings: admission.Warnings{`nothing will run on the cluster "alps": no pod template of the runtime r asks for a GPU, and none has the label trainer.kubeflow.org/trainjob-ancestor-step=trainer`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.job == "" {
				tt.job = `{name: node, ` + trainer + cpu + `}`
			}
			in := trainertest.Input(t,
				`{metadata: {name: llm, annotations: {`+tt.trainJob+`}}, spec: {runtimeRef: {name: r}}}`,
				`{metadata: {name: r, annotations: {`+tt.runtime+`}}, spec: {template: {spec: {replicatedJobs: [`+tt.job+`]}}}}`)
			in.NamespaceMeta.Annotations = annotations(t, tt.namespace)
			info, err := pipeline.NewInfo(in)
			require.NoError(t, err)

			warnings, errs := New().Validate(t.Context(), info, nil, in.TrainJob)
			assert.Equal(t, tt.warnings, warnings)
			var texts []string
			for _, err := range errs {
				texts = append(texts, err.Error())
			}
			assert.Equal(t, tt.errors, texts)
		})
	}
}
