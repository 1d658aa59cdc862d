package trainertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/framework"
)

// Policy is what a plugin makes of the first job of a runtime.
type Policy struct {
	TrainJob, Runtime string
	// Pods and Pod are the job's count and its pod's spec afterwards.
	Pods int32
	Pod  string
}

// EnforceMLPolicy tests a plugin with each of the cases, by what they show.
func EnforceMLPolicy(t *testing.T, plugin framework.MLPolicyEnforcer, cases map[string]Policy) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			info, trainJob := Info(t, test.TrainJob, test.Runtime)
			before := trainJob.DeepCopy()

			require.NoError(t, plugin.EnforceMLPolicy(info, trainJob))

			want := Parse[corev1.PodSpec](t, test.Pod)
			assert.Equal(t, YAML(t, want), YAML(t, info.PodSets[0].Pod()))
			assert.Equal(t, test.Pods, info.PodSets[0].Count)
			assert.Equal(t, before, trainJob, "the TrainJob stays as it is")
			assert.Equal(t, trainJob.Spec.Trainer, info.Trainer)
		})
	}
}
