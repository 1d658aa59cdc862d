package v1alpha1_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/fuzzer"
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/test/golden"
)

// seeds are the random objects that an ordinary run tries; go test -fuzz tries
// more.
const seeds = 50

func FuzzTrainJobSurvivesJSON(f *testing.F)        { survivesJSON[v1alpha1.TrainJob](f) }
func FuzzTrainingRuntimeSurvivesJSON(f *testing.F) { survivesJSON[v1alpha1.TrainingRuntime](f) }
func FuzzClusterTrainingRuntimeSurvivesJSON(f *testing.F) {
	survivesJSON[v1alpha1.ClusterTrainingRuntime](f)
}
func FuzzStatusRequestSurvivesJSON(f *testing.F) {
	survivesJSON[v1alpha1.UpdateTrainJobStatusRequest](f)
}

func survivesJSON[T any](f *testing.F) {
	for seed := range int64(seeds) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		before, after := new(T), new(T)
		fuzzer.Fill(before, seed)
		text, err := json.Marshal(before)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, after))
		if !equality.Semantic.DeepEqual(before, after) {
			// The text shows the place, if the text can show it at all.
			again, err := json.Marshal(after)
			require.NoError(t, err)
			require.JSONEq(t, string(text), string(again))
			assert.Equal(t, before, after)
		}
	})
}

// Clients compare whole objects, so nothing may be written that nobody set.
func TestEmptyObjects(t *testing.T) {
	objects := map[string]any{
		"TrainJob":                    v1alpha1.TrainJob{},
		"TrainJobList":                v1alpha1.TrainJobList{},
		"TrainingRuntime":             v1alpha1.TrainingRuntime{},
		"TrainingRuntimeList":         v1alpha1.TrainingRuntimeList{},
		"ClusterTrainingRuntime":      v1alpha1.ClusterTrainingRuntime{},
		"ClusterTrainingRuntimeList":  v1alpha1.ClusterTrainingRuntimeList{},
		"UpdateTrainJobStatusRequest": v1alpha1.UpdateTrainJobStatusRequest{},
		// Sections that are there and have nothing in them.
		"empty sections of a TrainJob": v1alpha1.TrainJob{
			Spec: v1alpha1.TrainJobSpec{
				Initializer: &v1alpha1.Initializer{
					Dataset: &v1alpha1.DatasetInitializerSpec{}, Model: &v1alpha1.ModelInitializerSpec{},
				},
				Trainer: &v1alpha1.Trainer{},
				RuntimePatches: []v1alpha1.RuntimePatch{{
					TrainingRuntimeSpec: &v1alpha1.TrainingRuntimeSpecPatch{
						Template: &v1alpha1.JobSetTemplatePatch{Spec: &v1alpha1.JobSetSpecPatch{
							ReplicatedJobs: []v1alpha1.ReplicatedJobPatch{{
								Template: &v1alpha1.JobTemplatePatch{Spec: &v1alpha1.JobSpecPatch{
									Template: &v1alpha1.PodTemplatePatch{Spec: &v1alpha1.PodSpecPatch{
										InitContainers: []v1alpha1.ContainerPatch{{}}, Containers: []v1alpha1.ContainerPatch{{}},
									}},
								}},
							}},
						}},
					},
				}},
			},
			Status: v1alpha1.TrainJobStatus{
				JobsStatus:    []v1alpha1.JobStatus{{}},
				TrainerStatus: &v1alpha1.TrainerStatus{Metrics: []v1alpha1.Metric{{}}},
			},
		},
		"empty sections of a TrainingRuntime": v1alpha1.TrainingRuntime{
			Spec: v1alpha1.TrainingRuntimeSpec{
				MLPolicy: &v1alpha1.MLPolicy{MLPolicySource: v1alpha1.MLPolicySource{
					Torch:   &v1alpha1.TorchMLPolicySource{EnvInjection: &v1alpha1.EnvInjection{Targets: []v1alpha1.EnvInjectionTarget{{}}}},
					MPI:     &v1alpha1.MPIMLPolicySource{},
					Flux:    &v1alpha1.FluxMLPolicySource{},
					JAX:     &v1alpha1.JAXMLPolicySource{},
					XGBoost: &v1alpha1.XGBoostMLPolicySource{},
				}},
				PodGroupPolicy: &v1alpha1.PodGroupPolicy{PodGroupPolicySource: v1alpha1.PodGroupPolicySource{
					Coscheduling: &v1alpha1.CoschedulingPodGroupPolicySource{},
					Volcano:      &v1alpha1.VolcanoPodGroupPolicySource{NetworkTopology: &v1alpha1.NetworkTopologySpec{}},
				}},
				Template: v1alpha1.JobSetTemplateSpec{},
			},
		},
	}
	got, err := yaml.Marshal(objects)
	require.NoError(t, err)
	golden.Equal(t, filepath.Join("testdata", "empty.yaml"), string(got))
}

func TestSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	for _, kind := range []string{
		v1alpha1.TrainJobKind, v1alpha1.TrainJobKind + "List",
		v1alpha1.TrainingRuntimeKind, v1alpha1.TrainingRuntimeKind + "List",
		v1alpha1.ClusterTrainingRuntimeKind, v1alpha1.ClusterTrainingRuntimeKind + "List",
	} {
		assert.True(t, scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)), kind)
	}
}
