package webhook_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/runtimes"
)

const deprecationPolicy = " is deprecated and will be removed in a future release of Kubeflow Trainer. " +
	"See runtime deprecation policy: https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"

// TestThroughTheAPIServer shows what clients see: the texts, warnings and objects
// that a real API server returns.
func TestThroughTheAPIServer(t *testing.T) {
	w := startWorld(t)
	t.Run("TrainJobs are refused in the expected words", w.refusals)
	t.Run("TrainJobs that can be built are admitted", w.admissions)
	t.Run("Deprecated runtimes are warned of", w.deprecations)
	t.Run("Patches have the time of their last change", w.patchTimes)
	t.Run("Quantities stay as they were written", w.quantities)
	t.Run("Objects of v2alpha1 are asked about as well", w.olderVersion)
	t.Run("The KEP's examples are admitted", w.kepExamples)
	t.Run("A TrainJob outlives its runtime", w.runtimeGone)
	t.Run("A TrainJob outlives its runtime, and has a snapshot", w.runtimeGoneWithSnapshot)
	t.Run("Runtimes are refused in the expected words", w.runtimeRefusals)
	t.Run("Changes of runtimes", w.runtimeChanges)
}

func (w *world) refusals(t *testing.T) {
	w.create(t, runtimeText("ClusterTrainingRuntime", "torch", "{torch: {}}", ""))
	w.create(t, runtimeText("ClusterTrainingRuntime", "flux", "{flux: {}}", ""))
	w.create(t, runtimeText("ClusterTrainingRuntime", "mpi", "{mpi: {}}", ""))
	const denied = `admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: `
	cases := map[string]struct{ spec, text string }{
		"no such ClusterTrainingRuntime": {
			`{runtimeRef: {name: nothing}}`,
			`spec.RuntimeRef: Invalid value: {"name":"nothing","apiGroup":"trainer.kubeflow.org","kind":"ClusterTrainingRuntime"}: ` +
				`ClusterTrainingRuntime.trainer.kubeflow.org "nothing" not found: specified clusterTrainingRuntime must be created before the TrainJob is created`,
		},
		"no such TrainingRuntime": {
			`{runtimeRef: {name: torch, kind: TrainingRuntime}}`,
			`spec.runtimeRef: Invalid value: {"name":"torch","apiGroup":"trainer.kubeflow.org","kind":"TrainingRuntime"}: ` +
				`TrainingRuntime.trainer.kubeflow.org "torch" not found: specified trainingRuntime must be created before the TrainJob is created`,
		},
		"no such kind": {
			`{runtimeRef: {name: torch, kind: Job, apiGroup: batch}}`,
			`unsupported runtime: Job.batch`,
		},
		"an initializer that the runtime does not have": {
			`{runtimeRef: {name: torch}, initializer: {dataset: {storageUri: "hf://a/b"}}}`,
			`spec.runtimeRef: Invalid value: {"name":"torch","apiGroup":"trainer.kubeflow.org","kind":"ClusterTrainingRuntime"}: ` +
				`must have dataset-initializer job when trainJob is configured with input datasetConfig`,
		},
		"a variable that is the plugin's": {
			`{runtimeRef: {name: torch}, trainer: {env: [{name: PET_NODE_RANK, value: "1"}]}}`,
			`spec.trainer.env: Invalid value: [{"name":"PET_NODE_RANK","value":"1"}]: ` +
				`must not have reserved envs, invalid envs configured: [PET_NODE_RANK]`,
		},
		"a patch of a job that the runtime does not have": {
			`{runtimeRef: {name: torch}, runtimePatches: [{manager: a.io/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: x}]}}}}]}`,
			`must not have replicated job that doesn't exist in the runtime job template`,
		},
		"what no plugin's rules forbid, but cannot be built": {
			`{runtimeRef: {name: flux}, trainer: {numNodes: 1, env: [{name: FLUX_NETWORK_DEVICE, value: "eth0; reboot"}]}}`,
			`spec: Invalid value: "job": plugin Flux: FLUX_NETWORK_DEVICE is "eth0; reboot"`,
		},
		"more nodes than a hostfile lists": {
			`{runtimeRef: {name: mpi}, trainer: {numNodes: 100000}}`,
			`spec: Invalid value: "job": plugin MPI: the hostfile of so many nodes does not fit into a ConfigMap`,
		},
		"a manager without a path": {
			`{runtimeRef: {name: torch}, runtimePatches: [{manager: kueue.k8s.io/}]}`,
			`spec.runtimePatches.manager: Invalid value: "kueue.k8s.io/": `,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			text := refused(t, w.Create(t.Context(), parse(t, trainJob("job", c.spec))))
			assert.Contains(t, text, denied)
			assert.Contains(t, text, c.text)
		})
	}
	t.Run("a TrainJob without a spec, which the CRD lets through", func(t *testing.T) {
		job := parse(t, trainJob("job", "{}"))
		delete(job.Object, "spec")
		assert.Contains(t, refused(t, w.Create(t.Context(), job)),
			denied+`spec.RuntimeRef: Invalid value: {}: ClusterTrainingRuntime.trainer.kubeflow.org "" not found: `)
	})
}

func (w *world) admissions(t *testing.T) {
	w.create(t, runtimeText("TrainingRuntime", "torch", "{numNodes: 2, torch: {}}", ""))
	patch := `{manager: a.io/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: %s}}}}]}}}}`
	cases := map[string]string{
		"nothing but a runtimeRef":        `{runtimeRef: {name: torch, kind: TrainingRuntime}}`,
		"a trainer that says all":         `{runtimeRef: {name: torch, kind: TrainingRuntime}, trainer: {image: a, command: [b], args: [c], env: [{name: D}], numNodes: 3, numProcPerNode: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 1}}}}`,
		"a patch of what Kueue patches":   `{runtimeRef: {name: torch, kind: TrainingRuntime}, runtimePatches: [` + fmt.Sprintf(patch, `{nodeSelector: {a: b}, tolerations: [{key: a, operator: Exists}], schedulingGates: [{name: a}]}`) + `]}`,
		"a patch of another's container":  `{runtimeRef: {name: torch, kind: TrainingRuntime}, runtimePatches: [` + fmt.Sprintf(patch, `{containers: [{name: sidecar, env: [{name: A}]}]}`) + `]}`,
		"as many nodes as a Job has pods": `{runtimeRef: {name: torch, kind: TrainingRuntime}, trainer: {numNodes: 100000}}`,
		"managed by another controller":   `{runtimeRef: {name: torch, kind: TrainingRuntime}, managedBy: kueue.x-k8s.io/multikueue}`,
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			w.warnings.take()
			job := parse(t, trainJob("", spec))
			job.SetGenerateName("job-") // the name is there when the webhooks are asked
			require.NoError(t, w.Create(t.Context(), job))
			assert.Empty(t, w.warnings.take())
		})
	}
	t.Run("the longest name", func(t *testing.T) {
		w.create(t, trainJob(strings.Repeat("a", 63), `{runtimeRef: {name: torch, kind: TrainingRuntime}}`))
	})
	t.Run("the longest argument", func(t *testing.T) {
		w.create(t, trainJob("long", `{runtimeRef: {name: torch, kind: TrainingRuntime}, trainer: {args: [`+strings.Repeat("a", 1<<20)+`]}}`))
	})
}

func (w *world) deprecations(t *testing.T) {
	w.warnings.take()
	w.create(t, runtimeText("ClusterTrainingRuntime", "old", "{}", "trainer.kubeflow.org/support: deprecated"))
	assert.Equal(t, []string{`ClusterTrainingRuntime "old"` + deprecationPolicy}, w.warnings.take())
	w.create(t, trainJob("uses-old", `{runtimeRef: {name: old}}`))
	assert.Equal(t, []string{`Referenced ClusterTrainingRuntime "old"` + deprecationPolicy}, w.warnings.take())
}

func (w *world) patchTimes(t *testing.T) {
	w.create(t, runtimeText("TrainingRuntime", "timed", "{torch: {}}", ""))
	before := time.Now().Truncate(time.Second)
	job := w.create(t, trainJob("timed", `{runtimeRef: {name: timed, kind: TrainingRuntime}, suspend: true,
		runtimePatches: [{manager: a.io/new}, {manager: a.io/old, time: "2020-01-01T00:00:00Z"}]}`))
	stamped := times(t, job)
	assert.WithinRange(t, stamped["a.io/new"], before, time.Now())
	assert.Equal(t, "2020-01-01T00:00:00Z", stamped["a.io/old"].Format(time.RFC3339))
	w.update(t, job, func(spec map[string]any) {
		spec["runtimePatches"] = []any{
			map[string]any{"manager": "a.io/new", "time": "2021-01-01T00:00:00Z"},
			map[string]any{"manager": "a.io/old", "time": "2021-01-01T00:00:00Z", "trainingRuntimeSpec": map[string]any{
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}},
			}},
			map[string]any{"manager": "a.io/third"},
		}
	})
	again := times(t, job)
	assert.Equal(t, stamped["a.io/new"], again["a.io/new"], "it has not changed")
	assert.WithinRange(t, again["a.io/old"], before, time.Now(), "it has changed")
	assert.WithinRange(t, again["a.io/third"], before, time.Now())
}

// The trainer is immutable, so a quantity in it must not be written in another
// way when a patch is stamped.
func (w *world) quantities(t *testing.T) {
	w.create(t, runtimeText("TrainingRuntime", "sized", "{torch: {}}", ""))
	job := w.create(t, trainJob("sized", `{runtimeRef: {name: sized, kind: TrainingRuntime}, suspend: true,
		trainer: {resourcesPerNode: {requests: {cpu: 1000m, memory: 1024Mi}}}}`))
	w.update(t, job, func(spec map[string]any) { spec["runtimePatches"] = []any{nodeSelectorPatch("node")} })
	assert.Len(t, times(t, job), 1)
	cpu, _, err := unstructured.NestedString(job.Object, "spec", "trainer", "resourcesPerNode", "requests", "cpu")
	require.NoError(t, err)
	assert.Equal(t, "1000m", cpu)
}

func (w *world) olderVersion(t *testing.T) {
	job := parse(t, trainJob("job", `{runtimeRef: {name: nothing}}`))
	job.SetAPIVersion("trainer.kubeflow.org/v2alpha1")
	assert.Contains(t, refused(t, w.Create(t.Context(), job)),
		"specified clusterTrainingRuntime must be created before the TrainJob is created")

	for _, kind := range []string{"TrainingRuntime", "ClusterTrainingRuntime"} {
		runtime := parse(t, runtimeText(kind, "two", "{}", ""))
		runtime.SetAPIVersion("trainer.kubeflow.org/v2alpha1")
		setReplicas(t, runtime, 2)
		assert.Contains(t, refused(t, w.Create(t.Context(), runtime)), "replicas: Invalid value: 2: always must be 1")
	}
}

func (w *world) kepExamples(t *testing.T) {
	for _, runtime := range parseFile(t, "kep-runtimes.yaml") {
		t.Run(runtime.GetName(), func(t *testing.T) {
			w.warnings.take()
			require.NoError(t, w.Create(t.Context(), runtime))
			assert.Empty(t, w.warnings.take())
		})
	}
	for _, job := range parseFile(t, "kep-trainjobs.yaml") {
		t.Run("TrainJob "+job.GetName(), func(t *testing.T) {
			w.warnings.take()
			job.SetNamespace(team)
			require.NoError(t, w.Create(t.Context(), job))
			for _, warning := range w.warnings.take() { // the KEP requests GPUs without a limit
				assert.Contains(t, warning, "Limit must be set for non overcommitable resources")
			}

			stored := &v1alpha1.TrainJob{}
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(job), stored))
			assert.Equal(t, v1alpha1.ManagedByController, *stored.Spec.ManagedBy)
			for _, patch := range stored.Spec.RuntimePatches {
				assert.NotNil(t, patch.Time)
			}
		})
	}
}

func (w *world) runtimeGone(t *testing.T) {
	runtime := w.create(t, runtimeText("TrainingRuntime", "going", "{torch: {}}", ""))
	job := parse(t, trainJob("orphan", `{runtimeRef: {name: going, kind: TrainingRuntime}, suspend: true}`))
	job.SetFinalizers([]string{"example.org/keep"})
	require.NoError(t, w.Create(t.Context(), job))
	require.NoError(t, w.Delete(t.Context(), runtime))
	w.waitUntilForgotten(t, "going")

	w.warnings.take()
	w.update(t, job, func(spec map[string]any) { spec["suspend"] = false })
	warned := w.warnings.take()
	require.Len(t, warned, 1)
	assert.Contains(t, warned[0], `TrainingRuntime.trainer.kubeflow.org "going" not found`)

	require.NoError(t, w.patch(t, job, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "b"}) }))
	text := refused(t, w.patch(t, job, func(o *unstructured.Unstructured) {
		o.Object["spec"].(map[string]any)["runtimePatches"] = []any{map[string]any{"manager": "a.io/b"}}
	}))
	assert.Contains(t, text, "specified trainingRuntime must be created before the TrainJob is created")

	require.NoError(t, w.Delete(t.Context(), job))
	require.NoError(t, w.patch(t, job, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) }))
}

func (w *world) runtimeGoneWithSnapshot(t *testing.T) {
	runtime := w.create(t, runtimeText("TrainingRuntime", "kept", "{torch: {}}", ""))
	job := w.create(t, trainJob("kept", `{runtimeRef: {name: kept, kind: TrainingRuntime}, suspend: true}`))
	w.snapshot(t, job, runtime)
	require.NoError(t, w.Delete(t.Context(), runtime))
	w.waitUntilForgotten(t, "kept")

	w.warnings.take()
	w.update(t, job, func(spec map[string]any) {
		spec["suspend"] = false
		spec["runtimePatches"] = []any{nodeSelectorPatch("node")}
	})
	assert.Empty(t, w.warnings.take())
	w.update(t, job, func(spec map[string]any) { spec["suspend"] = true })
	text := refused(t, w.patch(t, job, func(o *unstructured.Unstructured) {
		o.Object["spec"].(map[string]any)["runtimePatches"] = []any{nodeSelectorPatch("elsewhere")}
	}))
	assert.Contains(t, text, "must not have replicated job that doesn't exist in the runtime job template")
}

func (w *world) runtimeRefusals(t *testing.T) {
	for kind, hook := range map[string]string{
		"TrainingRuntime":        "validator.trainingruntime.trainer.kubeflow.org",
		"ClusterTrainingRuntime": "validator.clustertrainingruntime.trainer.kubeflow.org",
	} {
		t.Run(kind, func(t *testing.T) {
			runtime := parse(t, runtimeText(kind, "bad", "{}", ""))
			setReplicas(t, runtime, 3)
			assert.Contains(t, refused(t, w.Create(t.Context(), runtime)), `admission webhook "`+hook+`" denied the request: `+
				`spec.template.spec.replicatedJobs[0].replicas: Invalid value: 3: always must be 1`)

			runtime = parse(t, runtimeText(kind, "unchecked", "{}", "trainer.kubeflow.org/webhook-validation: disabled"))
			setReplicas(t, runtime, 3)
			require.NoError(t, w.Create(t.Context(), runtime))
		})
	}
}

func (w *world) runtimeChanges(t *testing.T) {
	wrong := func(o *unstructured.Unstructured) { setReplicas(t, o, 2) }

	namespaced := w.create(t, runtimeText("TrainingRuntime", "changing", "{}", ""))
	require.NoError(t, w.patch(t, namespaced, wrong))

	cluster := w.create(t, runtimeText("ClusterTrainingRuntime", "changing", "{}", ""))
	assert.Contains(t, refused(t, w.patch(t, cluster, wrong)), "always must be 1")
}

// create creates an object and returns it as it was stored.
func (w *world) create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := parse(t, text)
	require.NoError(t, w.Create(t.Context(), object))
	return object
}

// patch changes an object, which is read anew if the server refuses.
func (w *world) patch(t *testing.T, object *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	t.Helper()
	before := object.DeepCopy()
	change(object)
	err := w.Patch(t.Context(), object, client.MergeFrom(before))
	if err != nil {
		before.DeepCopyInto(object)
	}
	return err
}

func (w *world) update(t *testing.T, job *unstructured.Unstructured, change func(spec map[string]any)) {
	t.Helper()
	require.NoError(t, w.patch(t, job, func(o *unstructured.Unstructured) { change(o.Object["spec"].(map[string]any)) }))
}

// waitUntilForgotten waits until the webhooks' cache has heard that a
// TrainingRuntime is gone.
func (w *world) waitUntilForgotten(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		job := parse(t, trainJob("probe", `{runtimeRef: {name: `+name+`, kind: TrainingRuntime}}`))
		return w.Create(t.Context(), job, client.DryRunAll) != nil
	}, time.Minute, 50*time.Millisecond)
}

// snapshot keeps a runtime for a TrainJob, as the controller does.
func (w *world) snapshot(t *testing.T, job, runtime *unstructured.Unstructured) {
	t.Helper()
	stored := &v1alpha1.TrainingRuntime{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(runtime), stored))
	text, err := runtimes.EncodeSnapshot(stored)
	require.NoError(t, err)
	owner := &v1alpha1.TrainJob{ObjectMeta: metav1.ObjectMeta{Name: job.GetName(), Namespace: job.GetNamespace(), UID: job.GetUID()}}
	require.NoError(t, w.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: framework.ChildMeta(owner, runtimes.SnapshotName(owner)),
		Data:       map[string]string{runtimes.SnapshotKey: text},
	}))
}

// times are those of a TrainJob's patches, by manager.
func times(t *testing.T, job *unstructured.Unstructured) map[string]time.Time {
	t.Helper()
	patches, _, err := unstructured.NestedSlice(job.Object, "spec", "runtimePatches")
	require.NoError(t, err)
	found := map[string]time.Time{}
	for _, patch := range patches {
		p := patch.(map[string]any)
		at, err := time.Parse(time.RFC3339, fmt.Sprint(p["time"]))
		require.NoError(t, err)
		found[p["manager"].(string)] = at
	}
	return found
}

func nodeSelectorPatch(job string) map[string]any {
	return map[string]any{"manager": "a.io/b", "trainingRuntimeSpec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"replicatedJobs": []any{map[string]any{"name": job, "template": map[string]any{
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"a": "b"}}}},
		}}}},
	}}}
}

func setReplicas(t *testing.T, runtime *unstructured.Unstructured, n int64) {
	t.Helper()
	path := []string{"spec", "template", "spec", "replicatedJobs"}
	jobs, _, err := unstructured.NestedSlice(runtime.Object, path...)
	require.NoError(t, err)
	jobs[0].(map[string]any)["replicas"] = n
	require.NoError(t, unstructured.SetNestedSlice(runtime.Object, jobs, path...))
}
