package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/runtimes"
	"github.com/gangline/gangline/controller/trainertest"
)

const (
	teamA = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {gangline.dev/cluster: daint}}
`
	torch = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {mlPolicy: {numNodes: 2}}
`
	deprecated = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch, labels: {trainer.kubeflow.org/support: deprecated}}
spec: {mlPolicy: {numNodes: 2}}
`
	// fussy is a runtime that no TrainJob can be built with.
	fussy = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {mlPolicy: {numNodes: 13}}
`
	teamTorch = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch, namespace: team-a, labels: {trainer.kubeflow.org/support: deprecated}}
spec: {mlPolicy: {numNodes: 2}}
`
	job          = trainJobMeta + `spec: {runtimeRef: {name: torch}, suspend: true}`
	resumed      = trainJobMeta + `spec: {runtimeRef: {name: torch}, suspend: false}`
	trainJobMeta = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908}
`
	patched  = trainJobMeta + `spec: {runtimeRef: {name: torch}, suspend: true, runtimePatches: [{manager: a.io/b}]}`
	labelled = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908, labels: {a: b}}
spec: {runtimeRef: {name: torch}, suspend: true}
`
	annotated = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, uid: 5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908, annotations: {bad: "yes"}}
spec: {runtimeRef: {name: torch}, suspend: true}
`
	leaving = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, deletionTimestamp: "2026-05-01T15:20:00Z"}
spec: {runtimeRef: {name: torch}, suspend: true}
`

	noClusterRuntime = `spec.RuntimeRef: Invalid value: {"name":"torch"}: clustertrainingruntimes.trainer.kubeflow.org "torch" not found: ` +
		`specified clusterTrainingRuntime must be created before the TrainJob is created`
	isDeprecated = `Referenced ClusterTrainingRuntime "torch" is deprecated and will be removed in a future release of Kubeflow Trainer. ` +
		`See runtime deprecation policy: https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy`
	unlucky       = `spec.runtimeRef: Invalid value: "torch": 13 nodes bring bad luck`
	badAnnotation = `metadata.annotations[bad]: Forbidden: not wanted`
)

// picky stands for the plugins: it refuses 13 nodes and an annotation, cannot
// build where there are no nodes, and warns of patches.
type picky struct{}

func (picky) Name() string { return "picky" }

func (picky) Validate(_ context.Context, info *framework.Info, _, changed *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	var warnings admission.Warnings
	var errs field.ErrorList
	if len(changed.Spec.RuntimePatches) > 0 {
		warnings = append(warnings, "patched in namespace of "+info.NamespaceMeta.Labels["gangline.dev/cluster"])
	}
	if *info.MLPolicy.NumNodes == 13 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "runtimeRef"), info.RuntimeMeta.Name, "13 nodes bring bad luck"))
	}
	if changed.Annotations["outage"] != "" {
		errs = append(errs, field.InternalError(field.NewPath("spec"), errors.New("out of order")))
	}
	if changed.Annotations["bad"] != "" {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key("bad"), "not wanted"))
	}
	return warnings, errs
}

func (picky) EnforceMLPolicy(info *framework.Info, _ *v1alpha1.TrainJob) error {
	if *info.MLPolicy.NumNodes == 0 {
		return errors.New("mlPolicy.numNodes is 0: nothing would run")
	}
	return nil
}

var (
	_ framework.Validator        = picky{}
	_ framework.MLPolicyEnforcer = picky{}
)

func TestNewTrainJobs(t *testing.T) {
	cases := map[string]struct {
		trainJob string
		world    []client.Object
		warnings []string
		refusal  string
	}{
		"with a ClusterTrainingRuntime": {
			trainJob: job,
			world:    []client.Object{clusterRuntime(t, torch)},
		},
		"with a TrainingRuntime, of whose deprecation nothing is said": {
			trainJob: trainJobMeta + `spec: {runtimeRef: {name: torch, kind: TrainingRuntime}}`,
			world:    []client.Object{trainertest.Parse[v1alpha1.TrainingRuntime](t, teamTorch)},
		},
		"with a deprecated ClusterTrainingRuntime": {
			trainJob: job,
			world:    []client.Object{clusterRuntime(t, deprecated)},
			warnings: []string{isDeprecated},
		},
		"without their ClusterTrainingRuntime": {
			trainJob: job,
			refusal:  noClusterRuntime,
		},
		"without their ClusterTrainingRuntime, although there is a snapshot of an earlier TrainJob": {
			trainJob: job,
			world:    []client.Object{snapshot(t, torch, "an-earlier-one")},
			refusal:  noClusterRuntime,
		},
		"without their TrainingRuntime": {
			trainJob: trainJobMeta + `spec: {runtimeRef: {name: torch, kind: TrainingRuntime, apiGroup: trainer.kubeflow.org}}`,
			world:    []client.Object{clusterRuntime(t, torch)},
			refusal: `spec.runtimeRef: Invalid value: {"name":"torch","apiGroup":"trainer.kubeflow.org","kind":"TrainingRuntime"}: ` +
				`trainingruntimes.trainer.kubeflow.org "torch" not found: specified trainingRuntime must be created before the TrainJob is created`,
		},
		"with a runtime of a kind that there is not": {
			trainJob: trainJobMeta + `spec: {runtimeRef: {name: torch, kind: Job, apiGroup: batch}}`,
			refusal:  `unsupported runtime: Job.batch`,
		},
		"that a plugin refuses": {
			trainJob: job,
			world:    []client.Object{clusterRuntime(t, fussy)},
			refusal:  unlucky,
		},
		"that several plugins refuse, and warn of": {
			trainJob: `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: job, namespace: team-a, annotations: {bad: "yes"}}
spec: {runtimeRef: {name: torch}, runtimePatches: [{manager: a.io/b}]}
`,
			world:    []client.Object{clusterRuntime(t, fussy)},
			warnings: []string{"patched in namespace of daint"},
			refusal:  "[" + unlucky + ", " + badAnnotation + "]",
		},
		"that could not be built": {
			trainJob: job,
			world: []client.Object{clusterRuntime(t, `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {mlPolicy: {numNodes: 0}}
`)},
			refusal: `spec: Invalid value: "job": plugin picky: mlPolicy.numNodes is 0: nothing would run`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := validator(t, c.world...).Handle(t.Context(), request(t, admissionv1.Create, c.trainJob, ""))
			verdict(t, got, c.warnings, c.refusal)
		})
	}
}

func TestChangedTrainJobs(t *testing.T) {
	const uid = "5f0ef9d3-5b0e-4b5e-9f0e-0d0c0b0a0908"
	cases := map[string]struct {
		old, changed string
		world        []client.Object
		warnings     []string
		refusal      string
	}{
		"are validated against their snapshot and not against what became of the runtime": {
			old: job, changed: patched,
			world:    []client.Object{clusterRuntime(t, fussy), snapshot(t, torch, uid)},
			warnings: []string{"patched in namespace of daint"},
		},
		"are refused what cannot be built from the snapshot, although the runtime is fine now": {
			old: job, changed: patched,
			world:    []client.Object{clusterRuntime(t, torch), snapshot(t, fussy, uid)},
			warnings: []string{"patched in namespace of daint"},
			refusal:  unlucky,
		},
		"are validated against the runtime when there is no snapshot yet": {
			old: job, changed: patched,
			world:    []client.Object{clusterRuntime(t, fussy)},
			warnings: []string{"patched in namespace of daint"},
			refusal:  unlucky,
		},
		"are validated against the runtime when the snapshot is another TrainJob's": {
			old: job, changed: patched,
			world:    []client.Object{clusterRuntime(t, fussy), snapshot(t, torch, "an-earlier-one")},
			warnings: []string{"patched in namespace of daint"},
			refusal:  unlucky,
		},
		"are validated against the runtime when the snapshot cannot be read": {
			old: job, changed: patched,
			world:    []client.Object{clusterRuntime(t, torch), snapshot(t, "{", uid)},
			warnings: []string{"patched in namespace of daint"},
		},
		"can be patched when the runtime is gone and there is a snapshot": {
			old: job, changed: patched,
			world:    []client.Object{snapshot(t, torch, uid)},
			warnings: []string{"patched in namespace of daint"},
		},
		"can be resumed when the runtime is gone and there is a snapshot": {
			old: job, changed: resumed,
			world: []client.Object{snapshot(t, torch, uid)},
		},
		"can be resumed when the runtime is gone and there is no snapshot": {
			old: job, changed: resumed,
			warnings: []string{noClusterRuntime},
		},
		"can be labelled when the runtime is gone and there is no snapshot": {
			old: job, changed: labelled,
			warnings: []string{noClusterRuntime},
		},
		"cannot be patched when the runtime is gone and there is no snapshot": {
			old: job, changed: patched,
			refusal: noClusterRuntime,
		},
		"can be labelled when their runtime is of a kind that there is not": {
			old:      strings.Replace(job, "name: torch", "name: torch, kind: Job", 1),
			changed:  strings.Replace(labelled, "name: torch", "name: torch, kind: Job", 1),
			warnings: []string{`unsupported runtime: Job.trainer.kubeflow.org`},
		},
		"can be labelled when they could not be built before": {
			old: job, changed: labelled,
			world:    []client.Object{clusterRuntime(t, fussy)},
			warnings: []string{unlucky},
		},
		"can be suspended when they could not be built before": {
			old: resumed, changed: job,
			world:    []client.Object{clusterRuntime(t, fussy)},
			warnings: []string{unlucky},
		},
		"are refused what is newly wrong with their metadata, and warned of the rest": {
			old: job, changed: annotated,
			world:    []client.Object{clusterRuntime(t, fussy)},
			warnings: []string{unlucky},
			refusal:  badAnnotation,
		},
		"are not looked at once they are being deleted": {
			old: job, changed: leaving,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := validator(t, c.world...).Handle(t.Context(), request(t, admissionv1.Update, c.changed, c.old))
			verdict(t, got, c.warnings, c.refusal)
		})
	}
}

func TestDeletedTrainJobsAreAdmitted(t *testing.T) {
	got := validator(t).Handle(t.Context(), request(t, admissionv1.Delete, "", job))
	verdict(t, got, nil, "")
}

// What cannot be read is no reason to blame the TrainJob: the API server's client
// may try again after a 500.
func TestFailedReadsAreNoRefusals(t *testing.T) {
	cases := map[string]struct {
		operation admissionv1.Operation
		fails     func(client.Object) bool
		text      string
	}{
		"of the runtime": {
			operation: admissionv1.Create,
			fails:     func(o client.Object) bool { _, is := o.(*v1alpha1.ClusterTrainingRuntime); return is },
			text:      "Internal error occurred: reading ClusterTrainingRuntime torch: out of order",
		},
		"of the namespace": {
			operation: admissionv1.Create,
			fails: func(o client.Object) bool {
				return o.GetName() == "" && o.GetObjectKind().GroupVersionKind().Kind == "Namespace"
			},
			text: "Internal error occurred: reading the namespace of TrainJob job: out of order",
		},
		"of the snapshot": {
			operation: admissionv1.Update,
			fails:     func(o client.Object) bool { _, is := o.(*corev1.ConfigMap); return is },
			text:      "Internal error occurred: reading the snapshot of the runtime: out of order",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reader := world(t, clusterRuntime(t, torch)).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if c.fails(o) {
						return errors.New("out of order")
					}
					return w.Get(ctx, key, o, options...)
				},
			}).Build()
			req := request(t, c.operation, job, "")
			if c.operation == admissionv1.Update {
				req = request(t, c.operation, job, job)
			}
			got := handler(t, reader).Handle(t.Context(), req)
			assert.False(t, got.Allowed)
			assert.EqualValues(t, http.StatusInternalServerError, got.Result.Code)
			assert.Equal(t, c.text, got.Result.Message)
		})
	}
}

func TestChecksThatFailAreNoRefusals(t *testing.T) {
	got := validator(t, clusterRuntime(t, torch)).Handle(t.Context(),
		request(t, admissionv1.Create, strings.Replace(annotated, "bad", "outage", 1), ""))
	assert.False(t, got.Allowed)
	assert.EqualValues(t, http.StatusInternalServerError, got.Result.Code)
	assert.Equal(t, "Internal error occurred: spec: Internal error: out of order", got.Result.Message)
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, v1alpha1.AddToScheme(s))
	return s
}

func world(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	objects = append(objects, trainertest.Parse[corev1.Namespace](t, teamA))
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...)
}

func validator(t *testing.T, objects ...client.Object) *admission.Webhook {
	t.Helper()
	return handler(t, world(t, objects...).Build())
}

func handler(t *testing.T, reader client.Reader) *admission.Webhook {
	t.Helper()
	return admission.WithValidator(scheme(t), &trainJobValidator{
		loader: runtimes.Loader{Reader: reader}, live: reader, pipeline: pipeline.New(picky{}),
	})
}

// verdict checks an answer: a refusal is a 403 with that text, and none is "".
func verdict(t *testing.T, got admission.Response, warnings []string, refusal string) {
	t.Helper()
	assert.Equal(t, warnings, []string(got.Warnings))
	assert.Equal(t, refusal == "", got.Allowed)
	assert.Equal(t, refusal, got.Result.Message)
	if refusal != "" {
		assert.EqualValues(t, http.StatusForbidden, got.Result.Code)
	}
}

func clusterRuntime(t *testing.T, text string) client.Object {
	t.Helper()
	return trainertest.Parse[v1alpha1.ClusterTrainingRuntime](t, text)
}

func snapshot(t *testing.T, text, owner string) client.Object {
	t.Helper()
	configMap := trainertest.Parse[corev1.ConfigMap](t, `
apiVersion: v1
kind: ConfigMap
metadata:
  name: job-runtime-snapshot
  namespace: team-a
  ownerReferences:
  - {apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: job, uid: `+owner+`, controller: true, blockOwnerDeletion: true}
`)
	configMap.Data = map[string]string{runtimes.SnapshotKey: text}
	return configMap
}
