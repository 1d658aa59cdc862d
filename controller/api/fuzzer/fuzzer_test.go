package fuzzer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/controller/api/fuzzer"
	"github.com/gangline/gangline/controller/api/v1alpha1"
)

func TestSeedsMakeObjects(t *testing.T) {
	filled := func(seed int64) *v1alpha1.TrainJob {
		job := &v1alpha1.TrainJob{}
		fuzzer.Fill(job, seed)
		return job
	}
	assert.Equal(t, filled(1), filled(1), "the same seed gives the same object")
	assert.NotEqual(t, filled(1), filled(2))
	deep := 0
	for seed := range int64(50) {
		for _, patch := range filled(seed).Spec.RuntimePatches {
			if s := patch.TrainingRuntimeSpec; s != nil && s.Template != nil && s.Template.Spec != nil && len(s.Template.Spec.ReplicatedJobs) > 0 {
				deep++
			}
		}
	}
	assert.Greater(t, deep, 10, "objects are filled to the bottom")
}
