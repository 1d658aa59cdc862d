package webhook

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"
)

func TestTimesOfPatches(t *testing.T) {
	now := time.Date(2026, 5, 1, 15, 20, 0, 999, time.UTC)
	const stamped = `{"op":"add","path":"/spec/runtimePatches/0/time","value":"2026-05-01T15:20:00Z"}`
	cases := map[string]struct {
		old, changed string // runtimePatches; old is "" at creation
		operations   string
	}{
		"a new TrainJob without patches is left alone": {
			changed:    `[]`,
			operations: ``,
		},
		"a patch of a new TrainJob is of now": {
			changed:    `[{manager: a.io/b}]`,
			operations: `[` + stamped + `]`,
		},
		"a patch of a new TrainJob may have a time of its own": {
			changed:    `[{manager: a.io/b, time: "2020-01-01T00:00:00Z"}]`,
			operations: ``,
		},
		"a patch that an update adds is of now, and the one before it stays": {
			old:        `[{manager: a.io/a, time: "2020-01-01T00:00:00Z"}]`,
			changed:    `[{manager: a.io/b}, {manager: a.io/a, time: "2020-01-01T00:00:00Z"}]`,
			operations: `[` + stamped + `]`,
		},
		"a patch that an update adds may have a time of its own": {
			old:        `[]`,
			changed:    `[{manager: a.io/b, time: "2020-01-01T00:00:00Z"}]`,
			operations: ``,
		},
		"a patch that changes is of now, whatever it says itself": {
			old:        `[{manager: a.io/b, time: "2020-01-01T00:00:00Z"}]`,
			changed:    `[{manager: a.io/b, time: "2021-01-01T00:00:00Z", trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]`,
			operations: `[` + stamped + `]`,
		},
		"a patch that does not change keeps its time, whatever it says itself": {
			old:        `[{manager: a.io/b, time: "2020-01-01T00:00:00Z", trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]`,
			changed:    `[{manager: a.io/b, time: "2021-01-01T00:00:00Z", trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]`,
			operations: `[{"op":"add","path":"/spec/runtimePatches/0/time","value":"2020-01-01T00:00:00Z"}]`,
		},
		"a patch that does not change and comes without a time keeps it": {
			old:        `[{manager: a.io/b, time: "2020-01-01T00:00:00Z"}]`,
			changed:    `[{manager: a.io/b}]`,
			operations: `[{"op":"add","path":"/spec/runtimePatches/0/time","value":"2020-01-01T00:00:00Z"}]`,
		},
		"a patch from before there were times gets none by being sent with one": {
			old:        `[{manager: a.io/b}]`,
			changed:    `[{manager: a.io/b, time: "2021-01-01T00:00:00Z"}]`,
			operations: `[{"op":"remove","path":"/spec/runtimePatches/0/time"}]`,
		},
		"a manager's patch is known by its name and not by its place": {
			old:        `[{manager: a.io/a, time: "2020-01-01T00:00:00Z"}, {manager: a.io/b, time: "2020-01-02T00:00:00Z"}]`,
			changed:    `[{manager: a.io/b, time: "2020-01-02T00:00:00Z"}]`,
			operations: ``,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			handler := &admission.Webhook{Handler: &patchTimer{
				decoder: admission.NewDecoder(scheme(t)), clock: testingclock.NewFakePassiveClock(now),
			}}
			req := request(t, admissionv1.Create, withPatches(c.changed), "")
			if c.old != "" {
				req = request(t, admissionv1.Update, withPatches(c.changed), withPatches(c.old))
			}
			got := handler.Handle(t.Context(), req)
			require.True(t, got.Allowed, got.Result)
			if c.operations == "" {
				assert.Empty(t, string(got.Patch))
				return
			}
			assert.JSONEq(t, c.operations, string(got.Patch))
		})
	}
}

func TestWhatIsNoTrainJobIsNotMutated(t *testing.T) {
	cases := map[string]struct {
		operation admissionv1.Operation
		object    string
		old       string
		text      string
	}{
		"the new one": {admissionv1.Create, `{"spec": 1}`, ``, "reading the TrainJob: "},
		"the old one": {admissionv1.Update, `{}`, `{"spec": 1}`, "reading the TrainJob before its change: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			handler := &patchTimer{decoder: admission.NewDecoder(scheme(t)), clock: testingclock.NewFakePassiveClock(time.Time{})}
			got := handler.Handle(t.Context(), request(t, c.operation, c.object, c.old))
			assert.False(t, got.Allowed)
			assert.EqualValues(t, http.StatusBadRequest, got.Result.Code)
			assert.Contains(t, got.Result.Message, c.text)
		})
	}
}

func withPatches(patches string) string {
	return `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a}
spec:
  runtimeRef: {name: torch}
  trainer: {resourcesPerNode: {requests: {cpu: 1000m}}} # not how Go would write it
  runtimePatches: ` + patches
}

// request is what the API server sends; objects are YAML.
func request(t *testing.T, operation admissionv1.Operation, object, old string) admission.Request {
	t.Helper()
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "705ab4f5-6393-11e8-b7cc-42010a800002", Operation: operation, Object: raw(t, object), OldObject: raw(t, old),
	}}
}

func raw(t *testing.T, object string) runtime.RawExtension {
	t.Helper()
	if object == "" {
		return runtime.RawExtension{}
	}
	text, err := yaml.YAMLToJSON([]byte(object))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	return runtime.RawExtension{Raw: text}
}
