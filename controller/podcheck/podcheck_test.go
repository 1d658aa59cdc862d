package podcheck_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/podcheck"
)

// server answers dry runs, and counts them.
type server struct {
	asked  int
	answer func(*corev1.PodTemplate) error
}

func (s *server) client(t *testing.T) client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			s.asked++
			var options client.CreateOptions
			options.ApplyOptions(opts)
			require.Equal(t, []string{"All"}, options.DryRun, "nothing is made")
			return s.answer(o.(*corev1.PodTemplate))
		},
	}).Build()
}

func invalid(p *corev1.PodTemplate) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, p.Name, field.ErrorList{
		field.Required(field.NewPath("template", "spec", "containers").Index(0).Child("image"), ""),
	})
}

func spec(t *testing.T, address string) *jobsetv1alpha2.JobSetSpec {
	t.Helper()
	s := &jobsetv1alpha2.JobSetSpec{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
replicatedJobs:
- name: node
  template: {spec: {template: {spec: {containers: [{name: node, env: [{name: ADDRESS, value: `+address+`}]}]}}}}
`), s))
	return s
}

func TestARefusalIsReportedAndRemembered(t *testing.T) {
	s := &server{answer: invalid}
	c := podcheck.New(s.client(t))
	want := []string{"the pods of job node: template.spec.containers[0].image: Required value"}
	assert.Equal(t, want, c.Problems(t.Context(), "team", spec(t, "a")))
	assert.Equal(t, want, c.Problems(t.Context(), "team", spec(t, "b")), "the value of a variable does not matter")
	assert.Equal(t, 1, s.asked)
}

func TestOtherRefusalsSayNothingAboutThePods(t *testing.T) {
	cases := map[string]error{
		"a quota is used up":         apierrors.NewForbidden(schema.GroupResource{Resource: "podtemplates"}, "", errors.New("exceeded quota")),
		"the API server is away":     errors.New("connection refused"),
		"the pods would be accepted": nil,
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: func(*corev1.PodTemplate) error { return answer }}
			assert.Empty(t, podcheck.New(s.client(t)).Problems(t.Context(), "team", spec(t, "a")))
		})
	}
}

func TestAnOutageIsNotRemembered(t *testing.T) {
	s := &server{answer: func(*corev1.PodTemplate) error { return errors.New("connection refused") }}
	c := podcheck.New(s.client(t))
	assert.Empty(t, c.Problems(t.Context(), "team", spec(t, "a")))
	s.answer = invalid
	assert.Len(t, c.Problems(t.Context(), "team", spec(t, "a")), 1)
}

func TestPodsAreAskedForAsJobsHaveThem(t *testing.T) {
	s := &server{answer: func(p *corev1.PodTemplate) error {
		assert.Equal(t, corev1.RestartPolicyOnFailure, p.Template.Spec.RestartPolicy)
		assert.Equal(t, "team", p.Namespace)
		return nil
	}}
	given := spec(t, "a")
	podcheck.New(s.client(t)).Problems(t.Context(), "team", given)
	assert.Equal(t, "a", given.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Env[0].Value, "the spec stays as it is")
}
