package webhook

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins/jobset"
	"github.com/gangline/gangline/controller/trainertest"
)

// wantsImages is an API server that takes no pod without an image.
type wantsImages struct{}

func (wantsImages) Problems(_ context.Context, _ string, spec *jobsetv1alpha2.JobSetSpec) []string {
	if spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Image == "" {
		return []string{"there is no image"}
	}
	return nil
}

func TestPodsThatCannotBeMadeAreWarnedOf(t *testing.T) {
	runtime := `
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
	v := &trainJobValidator{pipeline: pipeline.New(jobset.New(nil)), pods: wantsImages{}}
	without := trainertest.Input(t, "{metadata: {name: train}, spec: {trainer: {}}}", runtime)
	assert.Equal(t, []string{"it will not start: there is no image"}, []string(v.podWarnings(t.Context(), without)))
	with := trainertest.Input(t, "{metadata: {name: train}, spec: {trainer: {image: mine}}}", runtime)
	assert.Empty(t, v.podWarnings(t.Context(), with), "it is the complete JobSet that counts")
}
