package placement

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestWishesOnTheJobSet(t *testing.T) {
	tests := map[string]struct {
		namespace, runtime, trainJob string // annotations
		template, patch              string // annotations for the JobSet
		want                         string
	}{
		"the TrainJob's before the runtime's before the namespace's": {
			namespace: `gangline.dev/partition: a, gangline.dev/account: a, gangline.dev/qos: a`,
			runtime:   `gangline.dev/partition: b, gangline.dev/account: b`,
			trainJob:  `gangline.dev/partition: c`,
			want:      `gangline.dev/partition: c, gangline.dev/account: b, gangline.dev/qos: a`,
		},
		"all of them": {
			trainJob: `gangline.dev/partition: a, gangline.dev/account: a, gangline.dev/qos: a, gangline.dev/time-limit: 90m,
              gangline.dev/constraint: a, gangline.dev/reservation: a, gangline.dev/nodes-exclusive: "true"`,
			want: `gangline.dev/partition: a, gangline.dev/account: a, gangline.dev/qos: a, gangline.dev/time-limit: 90m,
              gangline.dev/constraint: a, gangline.dev/reservation: a, gangline.dev/nodes-exclusive: "true"`,
		},
		"nothing else": {
			namespace: `team: vision`, runtime: `gangline.dev/gang-size: "3"`, trainJob: `gangline.dev/mpi-slots: "2", slurmjob.slinky.slurm.net/user-id: "0"`,
		},
		"the JobSet's own metadata comes first": {
			trainJob: `gangline.dev/partition: c, gangline.dev/account: c, gangline.dev/qos: c`,
			template: `gangline.dev/partition: t, note: kept`,
			patch:    `gangline.dev/account: p`,
			want:     `gangline.dev/partition: t, gangline.dev/account: p, gangline.dev/qos: c, note: kept`,
		},
		"slurm-bridge's names are other names of the same wishes": {
			namespace: `gangline.dev/partition: a, gangline.dev/time-limit: 1h`,
			trainJob:  `slurmjob.slinky.slurm.net/partition: c, slurmjob.slinky.slurm.net/timelimit: "90"`,
			template:  `gangline.dev/time-limit: 2h`,
			want:      `slurmjob.slinky.slurm.net/partition: c, gangline.dev/time-limit: 2h`,
		},
		"ours comes before slurm-bridge's on the same object": {
			trainJob: `gangline.dev/qos: ours, slurmjob.slinky.slurm.net/qos: theirs`,
			want:     `gangline.dev/qos: ours`,
		},
		"an empty one is none": {
			namespace: `gangline.dev/partition: a`, trainJob: `gangline.dev/partition: ""`,
			want: `gangline.dev/partition: a`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			trainJob := `
metadata: {name: llm, labels: {gangline.dev/cluster: alps}, annotations: {` + tt.trainJob + `}}
spec: {runtimePatches: [{manager: a.io/m, trainingRuntimeSpec: {template: {metadata: {annotations: {` + tt.patch + `}}}}}]}
`
			runtime := `
metadata: {name: r, annotations: {` + tt.runtime + `}}
spec: {template: {metadata: {annotations: {` + tt.template + `}}, spec: {replicatedJobs: [{name: node, ` + trainer + cpu + `}]}}}
`
			info := place(t, trainJob, runtime, func(in *pipeline.Input) { in.NamespaceMeta.Annotations = annotations(t, tt.namespace) })
			assert.Equal(t, annotations(t, tt.want), info.Annotations)
		})
	}
}

func annotations(t *testing.T, text string) map[string]string {
	t.Helper()
	m := map[string]string{}
	require.NoError(t, yaml.UnmarshalStrict([]byte("{"+text+"}"), &m))
	return m
}

func TestWithoutAClusterWishesStayWhereTheyAre(t *testing.T) {
	info := place(t, `{metadata: {name: llm, annotations: {gangline.dev/partition: gpu}}}`, head+`{name: node, `+trainer+gpu+`}`+tail)
	assert.Empty(t, info.Annotations)
}

// The virtual node reads each of the names, so it refuses a value that none may
// have.
func TestTheVirtualNodeReadsAllWishes(t *testing.T) {
	for _, wish := range wellknown.Wishes() {
		for _, name := range []string{wish.Name, wish.Alias} {
			if name == "" {
				continue // nobody else has such a wish
			}
			_, rejection := translate.ParseWishes(nil, map[string]string{name: "-\n"}, translate.Offer{})
			if assert.NotNil(t, rejection, name) {
				assert.Contains(t, rejection.Message, name)
			}
		}
	}
}
