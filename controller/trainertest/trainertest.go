// Package trainertest reads the objects of tests from YAML, strictly, so that a
// test shows what a user would write. It is for tests only.
package trainertest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
)

// Parse reads one object; unknown fields fail the test.
func Parse[T any](t testing.TB, text string) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), object), text)
	return object
}

// Input is a TrainJob and its ClusterTrainingRuntime, as a pipeline takes them.
// A TrainJob without a namespace is put into "default", and one without a UID
// gets one.
func Input(t testing.TB, trainJob, runtime string) pipeline.Input {
	t.Helper()
	job := Parse[v1alpha1.TrainJob](t, trainJob)
	if job.Namespace == "" {
		job.Namespace = "default"
	}
	if job.UID == "" {
		job.UID = "5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908"
	}
	r := Parse[v1alpha1.ClusterTrainingRuntime](t, runtime)
	return pipeline.Input{TrainJob: job, RuntimeMeta: r.ObjectMeta, Runtime: r.Spec}
}

// Info is what the plugins get to see first of a TrainJob and its
// ClusterTrainingRuntime.
func Info(t testing.TB, trainJob, runtime string) (*framework.Info, *v1alpha1.TrainJob) {
	t.Helper()
	in := Input(t, trainJob, runtime)
	info, err := pipeline.NewInfo(in)
	require.NoError(t, err)
	return info, in.TrainJob
}

// YAML is an object as text, for comparison and golden files.
func YAML(t testing.TB, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	require.NoError(t, err)
	return string(text)
}
