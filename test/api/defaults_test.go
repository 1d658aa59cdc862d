package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Whole objects are compared: nothing but what is named here may appear.
func TestDefaults(t *testing.T) {
	for name, test := range map[string]struct{ object, stored string }{
		"a TrainJob without a spec stays without one": {
			object: "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob}",
			stored: "{}",
		},
		"a TrainJob with a runtime's name": {
			object: trainJob("{runtimeRef: {name: torch-distributed}}"),
			stored: `
spec:
  runtimeRef: {name: torch-distributed, apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime}
  suspend: false
  managedBy: trainer.kubeflow.org/trainjob-controller`,
		},
		"what a TrainJob says stays": {
			object: trainJob("{runtimeRef: {name: r, apiGroup: example.org, kind: Sled}, suspend: true, managedBy: kueue.x-k8s.io/multikueue}"),
			stored: `
spec:
  runtimeRef: {name: r, apiGroup: example.org, kind: Sled}
  suspend: true
  managedBy: kueue.x-k8s.io/multikueue`,
		},
		"a TrainJob's sections stay as they are, but for names and options of references": {
			object: `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
spec:
  runtimeRef: {name: r}
  initializer:
    dataset: {}
    model: {storageUri: '', secretRef: {}}
  trainer:
    resourcesPerNode: {requests: {cpu: 2, nvidia.com/gpu: "1"}}
    env:
    - {name: a}
    - {name: b, valueFrom: {configMapKeyRef: {key: k}}}
    - {name: c, valueFrom: {secretKeyRef: {key: k}}}
    - {name: d, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v}}}
  runtimePatches:
  - manager: a.io/b
    trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}`,
			stored: `
spec:
  runtimeRef: {name: r, apiGroup: trainer.kubeflow.org, kind: ClusterTrainingRuntime}
  suspend: false
  managedBy: trainer.kubeflow.org/trainjob-controller
  initializer:
    dataset: {}
    model: {storageUri: '', secretRef: {name: ''}}
  trainer:
    resourcesPerNode: {requests: {cpu: 2, nvidia.com/gpu: "1"}}
    env:
    - {name: a}
    - {name: b, valueFrom: {configMapKeyRef: {key: k, name: ''}}}
    - {name: c, valueFrom: {secretKeyRef: {key: k, name: ''}}}
    - {name: d, valueFrom: {fileKeyRef: {key: k, path: p, volumeName: v, optional: false}}}
  runtimePatches:
  - manager: a.io/b
    trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}`,
		},
		"a runtime without a spec stays without one": {
			object: "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime}",
			stored: "{}",
		},
		"a policy's number of nodes has no default": {
			object: runtime("{mlPolicy: {torch: {}}}"),
			stored: "spec: {mlPolicy: {torch: {}}}",
		},
		"an MPI policy": {
			object: runtime("{mlPolicy: {mpi: {}}}"),
			stored: "spec: {mlPolicy: {mpi: {numProcPerNode: 1, mpiImplementation: OpenMPI, sshAuthMountPath: /root/.ssh, runLauncherAsNode: false}}}",
		},
		"a Flux policy": {
			object: runtime("{mlPolicy: {flux: {}}}"),
			stored: "spec: {mlPolicy: {flux: {numProcPerNode: 1}}}",
		},
		"a JAX policy": {
			object: runtime("{mlPolicy: {jax: {}}}"),
			stored: "spec: {mlPolicy: {jax: {}}}",
		},
		"an XGBoost policy": {
			object: runtime("{mlPolicy: {xgboost: {}}}"),
			stored: "spec: {mlPolicy: {xgboost: {}}}",
		},
		"pod group policies": {
			object: runtime("{podGroupPolicy: {coscheduling: {}, volcano: {networkTopology: {}}}}"),
			stored: "spec: {podGroupPolicy: {coscheduling: {scheduleTimeoutSeconds: 60}, volcano: {networkTopology: {mode: hard, highestTierAllowed: 1}}}}",
		},
		"Volcano without a topology": {
			object: runtime("{podGroupPolicy: {volcano: {}}}"),
			stored: "spec: {podGroupPolicy: {volcano: {}}}",
		},
		"a template's JobSet": {
			object: `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
spec:
  template:
    metadata: {labels: {a: b}}
    spec:
      failurePolicy: {maxRestarts: 3}
      volumeClaimPolicies:
      - templates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]
        retentionPolicy: {}
      replicatedJobs:
      - name: node
        dependsOn: [{name: data, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: i
                  ports: [{containerPort: 29500}]
                  readinessProbe: {grpc: {port: 1}}`,
			stored: `
spec:
  template:
    metadata: {labels: {a: b}}
    spec:
      failurePolicy: {maxRestarts: 3, restartStrategy: Recreate}
      volumeClaimPolicies:
      - templates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]
        retentionPolicy: {whenDeleted: Delete}
      replicatedJobs:
      - name: node
        replicas: 1
        groupName: default
        dependsOn: [{name: data, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: i
                  ports: [{containerPort: 29500, protocol: TCP}]
                  readinessProbe: {grpc: {port: 1, service: ''}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := create(t, test.object)
			require.NoError(t, apiServer.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				delete(o.Object, key)
			}
			got, err := yaml.Marshal(o.Object)
			require.NoError(t, err)
			assert.YAMLEq(t, test.stored, string(got))
		})
	}
}
