package webhook

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

func TestWhatTheCacheHasNotHeardOfIsReadFromTheServer(t *testing.T) {
	cases := map[string]struct {
		live     []client.Object
		warnings []string
		refusal  string
	}{
		"a runtime that was made a moment ago": {live: []client.Object{clusterRuntime(t, deprecated)}, warnings: []string{isDeprecated}},
		"a runtime that nobody has made":       {refusal: noClusterRuntime},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := &freshReader{cache: world(t).Build(), live: world(t, c.live...).Build()}
			got := handler(t, reader).Handle(t.Context(), request(t, admissionv1.Create, job, ""))
			verdict(t, got, c.warnings, c.refusal)
		})
	}
}

func TestTheServerIsNotAskedForWhatTheCacheHas(t *testing.T) {
	asked := 0
	live := world(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			asked++
			return errors.New("not to be asked")
		},
	}).Build()
	reader := &freshReader{cache: world(t, clusterRuntime(t, torch)).Build(), live: live}
	require.NoError(t, reader.Get(t.Context(), client.ObjectKey{Name: "torch"}, &v1alpha1.ClusterTrainingRuntime{}))
	list := &v1alpha1.ClusterTrainingRuntimeList{}
	require.NoError(t, reader.List(t.Context(), list))
	assert.Len(t, list.Items, 1)
	assert.Zero(t, asked)
}
