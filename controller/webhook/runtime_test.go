package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	header = `
apiVersion: trainer.kubeflow.org/v1alpha1
metadata: {name: runtime}
`
	good = header + `
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: dataset-initializer}]}}}
      - name: model-initializer
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
          spec: {template: {spec: {containers: [{name: model-initializer}]}}}
      - name: node
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: sidecar}, {name: node}]}}}
`
	bad = header + `
spec:
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        replicas: 2
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec: {template: {spec: {containers: [{name: fetch}]}}}
      - name: node
        replicas: 0
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: a}, {name: b}]}}}
`
	refusalOfBad = `[spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must be 1, ` +
		`spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers: Invalid value: ["fetch"]: ` +
		`must contain the required container for the ancestor: dataset-initializer, ` +
		`spec.template.spec.replicatedJobs[1].replicas: Invalid value: 0: always must be 1, ` +
		`spec.template.spec.replicatedJobs[1].template.spec.template.spec.containers: Invalid value: ["a","b"]: ` +
		`must contain the required container for the ancestor: trainer]`
	noTrainer = `spec.template.spec.replicatedJobs: none is labelled trainer.kubeflow.org/trainjob-ancestor-step=trainer, ` +
		`so what a TrainJob says in spec.trainer reaches none`
)

// The rules are the same for both kinds.
func TestNewRuntimes(t *testing.T) {
	cases := map[string]struct {
		runtime  string
		warnings []string
		refusal  string
	}{
		"one with all steps": {runtime: good},
		"one with the wrong containers and replicas": {
			runtime: bad,
			refusal: refusalOfBad,
		},
		"one whose steps nobody knows": {
			runtime: header + `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 2
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: evaluator}}
          spec: {template: {spec: {containers: [{name: any}]}}}
`,
			warnings: []string{noTrainer},
		},
		"one as in the KEP: the pod template is labelled, the container is the trainer": {
			runtime: header + `
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          spec:
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: trainer}]}
`,
		},
		"one with the Job template labelled and the KEP's container": {
			runtime: header + `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: trainer}]}}}
`,
		},
		"one with a labelled pod template and a container of any name, as in the KEP": {
			runtime: header + `
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 2
        template:
          spec:
            template:
              metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
              spec: {containers: [{name: pytorch}]}
`,
		},
		"one with two trainers": {
			runtime: header + `
spec:
  template:
    spec:
      replicatedJobs:
      - name: leader
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
      - name: worker
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`,
			warnings: []string{`spec.template.spec.replicatedJobs: leader, worker are all labelled as the trainer, ` +
				`but a TrainJob's numNodes reaches the first only`},
		},
		"one for MPI": {
			runtime: mpi(`{numNodes: 1, mpi: {runLauncherAsNode: true}}`, "launcher", "node"),
		},
		"one for MPI whose launcher is the only node": {
			runtime: mpi(`{mpi: {runLauncherAsNode: true}}`, "launcher", "other"),
		},
		"one for MPI that would start several launchers": {
			runtime: mpi(`{numNodes: 4, mpi: {}}`, "launcher", "node"),
			warnings: []string{`spec.mlPolicy.numNodes: starts 4 launchers, since launcher is the trainer; ` +
				`say 1 here, and the number of nodes as the parallelism of node or in TrainJobs`},
		},
		"one for MPI without launcher and node": {
			runtime: mpi(`{numNodes: 4, mpi: {}}`, "master", "worker"),
			warnings: []string{
				`spec.template.spec.replicatedJobs: none is called launcher, so no pod gets the hostfile of spec.mlPolicy.mpi`,
				`spec.template.spec.replicatedJobs: none is called node, so the hostfile of spec.mlPolicy.mpi is empty`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for kind, hook := range runtimeValidators(t) {
				got := hook.Handle(t.Context(), request(t, admissionv1.Create, c.runtime+"kind: "+kind, ""))
				verdict(t, got, c.warnings, c.refusal)
			}
		})
	}
}

func TestChangedRuntimes(t *testing.T) {
	labelledBad := strings.Replace(bad, "name: runtime", "name: runtime, labels: {a: b}", 1)
	cases := map[string]struct {
		kind         string
		old, changed string
		refusal      string
	}{
		"a TrainingRuntime may become anything":        {"TrainingRuntime", good, bad, ""},
		"a ClusterTrainingRuntime must keep the rules": {"ClusterTrainingRuntime", good, bad, refusalOfBad},
		"a ClusterTrainingRuntime may become good":     {"ClusterTrainingRuntime", bad, good, ""},
		"a ClusterTrainingRuntime that breaks the rules may change in its metadata": {
			"ClusterTrainingRuntime", bad, labelledBad, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := runtimeValidators(t)[c.kind].Handle(t.Context(), request(t, admissionv1.Update, c.changed, c.old))
			verdict(t, got, nil, c.refusal)
		})
	}
}

func TestChangedTrainingRuntimesAreWarnedOf(t *testing.T) {
	got := runtimeValidators(t)["TrainingRuntime"].Handle(t.Context(),
		request(t, admissionv1.Update, mpi(`{numNodes: 2, mpi: {}}`, "launcher", "node"), good))
	verdict(t, got, []string{`spec.mlPolicy.numNodes: starts 2 launchers, since launcher is the trainer; ` +
		`say 1 here, and the number of nodes as the parallelism of node or in TrainJobs`}, "")
}

func TestDeprecatedRuntimes(t *testing.T) {
	const runtime = `
metadata: {name: old-torch, labels: {trainer.kubeflow.org/support: deprecated}}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
	const warning = `ClusterTrainingRuntime "old-torch" is deprecated and will be removed in a future release of Kubeflow Trainer. ` +
		`See runtime deprecation policy: https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy`
	hooks := runtimeValidators(t)
	verdict(t, hooks["ClusterTrainingRuntime"].Handle(t.Context(), request(t, admissionv1.Create, runtime, "")), []string{warning}, "")
	verdict(t, hooks["ClusterTrainingRuntime"].Handle(t.Context(), request(t, admissionv1.Update, runtime, good)), nil, "")
	verdict(t, hooks["TrainingRuntime"].Handle(t.Context(), request(t, admissionv1.Create, runtime, "")), nil, "")
}

func TestDeletedRuntimesAreAdmitted(t *testing.T) {
	for _, hook := range runtimeValidators(t) {
		verdict(t, hook.Handle(t.Context(), request(t, admissionv1.Delete, "", bad)), nil, "")
	}
}

func runtimeValidators(t *testing.T) map[string]*admission.Webhook {
	t.Helper()
	return map[string]*admission.Webhook{
		"TrainingRuntime":        admission.WithValidator(scheme(t), trainingRuntimeValidator{}),
		"ClusterTrainingRuntime": admission.WithValidator(scheme(t), clusterTrainingRuntimeValidator{}),
	}
}

func mpi(policy, trainer, other string) string {
	return header + `
spec:
  mlPolicy: ` + policy + `
  template:
    spec:
      replicatedJobs:
      - name: ` + other + `
        replicas: 1
        template:
          spec: {template: {spec: {containers: [{name: node}]}}}
      - name: ` + trainer + `
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
}
