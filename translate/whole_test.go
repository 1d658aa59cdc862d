package translate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
)

func TestAGangIsWholeIfNoPodIsElsewhere(t *testing.T) {
	here, there := hpcPod("1", "0").Obj(), translatetest.MakePod("p").Obj()
	for sentence, tc := range map[string]struct {
		js   *translatetest.JobSetBuilder
		want bool
	}{
		"all are here": {translatetest.MakeJobSet("pi").Jobs("a", 1, 1, here).Jobs("b", 2, 2, here), true},
		"some are on another node": {
			translatetest.MakeJobSet("pi").Jobs("a", 1, 1, here).Jobs("b", 1, 1, there).DependsOn("a", jobset.DependencyReady), false,
		},
		"what is over before they begin does not count, nor what begins when they are over": {
			translatetest.MakeJobSet("pi").Jobs("a", 1, 1, here).Jobs("b", 1, 1, there).DependsOn("a", jobset.DependencyComplete), true,
		},
	} {
		assert.Equal(t, tc.want, translate.JobSetGang(tc.js.Obj(), 0, options()).Whole, sentence)
	}
	for template, want := range map[string]bool{hpcTemplate: true, farTemplate: false} {
		job, err := translate.MPIJobGang(mpiJob(t, "", template, "{replicas: 2, template: "+hpcTemplate+"}"), options())
		require.NoError(t, err)
		assert.Equal(t, want, job.Whole, "an MPIJob's launcher")
		group, err := translate.LWSGang(object(t, `
metadata: {name: llm, namespace: default, uid: u1}
spec: {leaderWorkerTemplate: {size: 2, leaderTemplate: `+template+`, workerTemplate: `+hpcTemplate+`}}
`), translate.LWSGroup{Set: "llm"}, nil, options())
		require.NoError(t, err)
		assert.Equal(t, want, group.Whole, "a LeaderWorkerSet's leader")
	}
	assert.False(t, translate.SinglePodGang(here, options()).Whole, "nobody says who else there is")
}
