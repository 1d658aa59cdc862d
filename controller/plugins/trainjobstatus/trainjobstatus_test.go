package trainjobstatus

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/trainertest"
)

const trainJob = `
metadata: {name: fine-tune, namespace: team-a, uid: 0d5fa2f4}
spec: {runtimeRef: {name: torch}}
`

func plugin() *Plugin {
	return New(Options{
		URL: "https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443",
		CA:  func() ([]byte, error) { return []byte("-----BEGIN CERTIFICATE-----\n"), nil },
	})
}

func TestTrainingPods(t *testing.T) {
	for name, tc := range map[string]struct{ runtime, want string }{
		"every container of the trainer step, and no other pod": {
			runtime: `
metadata: {name: torch}
spec:
  mlPolicy: {torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: model-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
          spec: {template: {spec: {containers: [{name: model-initializer}]}}}
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                initContainers: [{name: prepare}]
                containers:
                - name: node
                  env: [{name: KUBEFLOW_TRAINER_SERVER_URL, value: mine}, {name: A, value: b}]
                - name: sidecar
`,
			want: `
- containers: [{name: model-initializer, resources: {}}]
- initContainers: [{name: prepare, resources: {}}]
  containers:
  - name: node
    resources: {}
    env:
    - &url
      name: KUBEFLOW_TRAINER_SERVER_URL
      value: https://kubeflow-trainer-controller-manager.kubeflow-system.svc:10443/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/fine-tune/status
    - {name: A, value: b}
    - &ca {name: KUBEFLOW_TRAINER_SERVER_CA_CERT, value: /var/run/secrets/kubeflow/trainer/ca.crt}
    - &token {name: KUBEFLOW_TRAINER_SERVER_TOKEN, value: /var/run/secrets/kubeflow/trainer/token}
    volumeMounts: &mounts
    - {name: kubeflow-trainer-token, mountPath: /var/run/secrets/kubeflow/trainer, readOnly: true}
  - name: sidecar
    resources: {}
    env: [*url, *ca, *token]
    volumeMounts: *mounts
  volumes:
  - name: kubeflow-trainer-token
    projected:
      sources:
      - serviceAccountToken:
          audience: trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/fine-tune/status
          expirationSeconds: 3600
          path: token
      - configMap:
          name: fine-tune-tls-config
          items: [{key: ca.crt, path: ca.crt}]
`,
		},
		"without an ML policy too": {
			runtime: `
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: []}}}
`,
			want: `
- containers: []
  volumes:
  - name: kubeflow-trainer-token
    projected:
      sources:
      - serviceAccountToken:
          audience: trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/fine-tune/status
          expirationSeconds: 3600
          path: token
      - configMap:
          name: fine-tune-tls-config
          items: [{key: ca.crt, path: ca.crt}]
`,
		},
		"nothing without a trainer step": {
			runtime: `
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node}]}}}}
`,
			want: `
- containers: [{name: node, resources: {}}]
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			info, job := trainertest.Info(t, trainJob, tc.runtime)
			require.NoError(t, plugin().EnforceMLPolicy(info, job))
			var pods []any
			for i := range info.PodSets {
				pods = append(pods, info.PodSets[i].Pod())
			}
			assert.YAMLEq(t, tc.want, trainertest.YAML(t, pods))
		})
	}
}

func TestURL(t *testing.T) {
	const runtime = `
metadata: {name: torch}
spec:
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
	const onHPC = `
metadata: {name: fine-tune, namespace: team-a, annotations: {gangline.dev/cluster: hpc}}
spec: {runtimeRef: {name: torch}}
`
	for name, tc := range map[string]struct{ trainJob, hpcURL, want string }{
		"in the cluster":  {trainJob: trainJob, hpcURL: "https://login.hpc:10443", want: "https://in.svc:10443"},
		"on the HPC side": {trainJob: onHPC, hpcURL: "https://login.hpc:10443", want: "https://login.hpc:10443"},
		"on an HPC side that reaches the cluster's": {trainJob: onHPC, want: "https://in.svc:10443"},
	} {
		t.Run(name, func(t *testing.T) {
			info, job := trainertest.Info(t, tc.trainJob, runtime)
			require.NoError(t, New(Options{URL: "https://in.svc:10443", HPCURL: tc.hpcURL}).EnforceMLPolicy(info, job))
			env := info.TrainingContainer().Env
			require.NotEmpty(t, env)
			assert.Equal(t, tc.want+"/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/fine-tune/status", env[0].Value)
		})
	}
}

func TestAuthority(t *testing.T) {
	info, job := trainertest.Info(t, trainJob, "metadata: {name: torch}\nspec: {template: {spec: {}}}")
	components, err := plugin().Build(t.Context(), info, job)
	require.NoError(t, err)
	require.Len(t, components, 1)
	assert.Equal(t, framework.Always, components[0].Policy, "a new authority must reach the pods")
	assert.Equal(t, "fine-tune-tls-config", components[0].Kind.GetName())
	assert.Equal(t, "team-a", components[0].Kind.GetNamespace())
	object, err := components[0].Object()
	require.NoError(t, err)
	assert.YAMLEq(t, `
metadata:
  name: fine-tune-tls-config
  namespace: team-a
  ownerReferences:
  - apiVersion: trainer.kubeflow.org/v1alpha1
    kind: TrainJob
    name: fine-tune
    uid: 0d5fa2f4
    controller: true
    blockOwnerDeletion: true
data:
  ca.crt: |
    -----BEGIN CERTIFICATE-----
`, trainertest.YAML(t, object))
}

func TestNoAuthority(t *testing.T) {
	p := New(Options{CA: func() ([]byte, error) { return nil, errors.New("no such file") }})
	info, job := trainertest.Info(t, trainJob, "metadata: {name: torch}\nspec: {template: {spec: {}}}")
	components, err := p.Build(t.Context(), info, job)
	require.NoError(t, err)
	_, err = components[0].Object()
	assert.EqualError(t, err, "finding the status server's certificate authority: no such file")
}
