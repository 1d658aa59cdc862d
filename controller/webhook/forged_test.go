package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/plugins/jobset"
	"github.com/gangline/gangline/controller/podcheck"
	"github.com/gangline/gangline/controller/runtimes"
)

// Anybody who reaches the port can send a review. It is answered, within bounds, and that is
// all: nothing is written because of it.
func TestAForgedReviewChangesNothing(t *testing.T) {
	var written []string
	write := func(what string, object client.Object) error {
		written = append(written, what+" "+object.GetName())
		return nil
	}
	dryRuns := 0
	c := world(t, clusterRuntime(t, `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: node, image: i}]}}}}}]}}}
`)).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
			asked := &client.CreateOptions{}
			asked.ApplyOptions(options)
			if assert.Equal(t, []string{metav1.DryRunAll}, asked.DryRun) {
				dryRuns++
				return nil
			}
			return write("create", object)
		},
		Update: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.UpdateOption) error {
			return write("update", object)
		},
		Patch: func(_ context.Context, _ client.WithWatch, object client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return write("patch", object)
		},
		Delete: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			return write("delete", object)
		},
	}).Build()
	webhook := admission.WithValidator(scheme(t), &trainJobValidator{
		loader: runtimes.Loader{Reader: c}, live: c, pipeline: pipeline.New(jobset.New(nil)), pods: podcheck.New(c),
	})
	review := func(operation admissionv1.Operation, object, old string) []byte {
		r := request(t, operation, object, old).AdmissionRequest
		text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &r})
		require.NoError(t, err)
		return text
	}
	for name, tc := range map[string]struct {
		body []byte
		code int32 // of the answer's status
	}{
		"a TrainJob that nobody makes": {review(admissionv1.Create, job, ""), http.StatusOK},
		"a change of one that is not":  {review(admissionv1.Update, resumed, job), http.StatusOK},
		"a deletion":                   {review(admissionv1.Delete, job, job), http.StatusOK},
		"no review":                    {[]byte(`{"kind":"Pod"}`), http.StatusBadRequest},
		"no TrainJob in it":            {review(admissionv1.Create, "[]", ""), http.StatusBadRequest},
		"more than any review may be":  {[]byte(strings.Repeat(" ", 8<<20)), http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			q := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(tc.body))
			q.Header.Set("Content-Type", "application/json")
			got := httptest.NewRecorder()
			webhook.ServeHTTP(got, q)
			var answer admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), &answer))
			assert.Equal(t, tc.code, answer.Response.Result.Code, "%s", got.Body)
		})
	}
	assert.Empty(t, written)
	assert.Positive(t, dryRuns, "the API server was asked what it has against the pods")
}
