package pipeline_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/trainertest"
)

// recorder is a plugin of every phase that writes down when it is called.
type recorder struct {
	name  string
	calls *[]string
	fail  map[string]error
}

func (r recorder) Name() string { return r.name }

func (r recorder) call(phase string) error {
	*r.calls = append(*r.calls, phase+" "+r.name)
	return r.fail[phase]
}

func (r recorder) Validate(context.Context, *framework.Info, *v1alpha1.TrainJob, *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if err := r.call("validate"); err != nil {
		return admission.Warnings{"look at " + r.name}, field.ErrorList{field.Invalid(field.NewPath("spec", "trainer"), nil, err.Error())}
	}
	return nil, nil
}

func (r recorder) EnforceMLPolicy(*framework.Info, *v1alpha1.TrainJob) error { return r.call("ml") }

func (r recorder) EnforcePodGroupPolicy(*framework.Info, *v1alpha1.TrainJob) error {
	return r.call("podgroup")
}

func (r recorder) IdentifyPodNetwork(*framework.Info, *v1alpha1.TrainJob) error {
	return r.call("network")
}

func (r recorder) Place(*framework.Info, *v1alpha1.TrainJob) error { return r.call("place") }

func (r recorder) Build(context.Context, *framework.Info, *v1alpha1.TrainJob) ([]framework.Component, error) {
	made := func(phase string) func() (client.Object, error) {
		return func() (client.Object, error) { return &corev1.ConfigMap{}, r.call(phase) }
	}
	return []framework.Component{
		{Kind: &corev1.ConfigMap{}, Policy: framework.Always, Object: made("object")},
		{Kind: &corev1.Secret{}, Policy: framework.Once, Object: made("once")},
	}, r.call("build")
}

func newPipeline(fail map[string]error) (*pipeline.Pipeline, *[]string) {
	calls := &[]string{}
	return pipeline.New(recorder{name: "A", calls: calls, fail: fail}, recorder{name: "B", calls: calls, fail: fail}), calls
}

func TestPhasesRunInOrderAndPluginsWithinThem(t *testing.T) {
	p, calls := newPipeline(nil)
	components, err := p.Build(t.Context(), trainertest.Input(t, job, runtime))
	require.NoError(t, err)
	assert.Equal(t, []string{
		"ml A", "ml B", "podgroup A", "podgroup B", "network A", "network B", "place A", "place B", "build A", "build B",
	}, *calls, "and no object is made before it is needed")
	assert.Len(t, components, 4)
}

func TestAnErrorEndsTheBuildAndNamesThePlugin(t *testing.T) {
	p, calls := newPipeline(map[string]error{"podgroup": errors.New("no scheduler")})
	_, err := p.Build(t.Context(), trainertest.Input(t, job, runtime))
	require.EqualError(t, err, "plugin A: no scheduler")
	assert.Equal(t, []string{"ml A", "ml B", "podgroup A"}, *calls)
}

func TestValidationAsksAllAndThenBuildsWithoutKeys(t *testing.T) {
	p, calls := newPipeline(nil)
	warnings, errs := p.Validate(t.Context(), trainertest.Input(t, job, runtime), nil)
	assert.Empty(t, warnings)
	assert.Empty(t, errs)
	assert.Contains(t, *calls, "object B")
	assert.NotContains(t, *calls, "once A", "keys take time, and nobody would use them")
}

func TestValidationReports(t *testing.T) {
	t.Run("everything that validators refuse, before anything is built", func(t *testing.T) {
		p, calls := newPipeline(map[string]error{"validate": errors.New("too many")})
		warnings, errs := p.Validate(t.Context(), trainertest.Input(t, job, runtime), nil)
		assert.Equal(t, admission.Warnings{"look at A", "look at B"}, warnings)
		assert.Len(t, errs, 2)
		assert.Equal(t, []string{"validate A", "validate B"}, *calls)
	})
	for _, phase := range []string{"ml", "network", "place", "build", "object"} {
		t.Run("what would fail in phase "+phase, func(t *testing.T) {
			p, _ := newPipeline(map[string]error{phase: errors.New("it cannot be")})
			_, errs := p.Validate(t.Context(), trainertest.Input(t, job, runtime), nil)
			require.Len(t, errs, 1)
			assert.Contains(t, errs[0].Error(), "spec: Invalid value")
			assert.Contains(t, errs[0].Error(), "it cannot be")
		})
	}
}
