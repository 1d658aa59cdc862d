package api

import "testing"

const uriWords = "storageUri may be empty, or it must be a valid URI (scheme://...)"

func TestTrainJobSpecs(t *testing.T) {
	checkRules(t, trainJob, map[string]rule{
		"runtimeRef is required": {
			bad: []string{"{}", "{suspend: true}"}, words: "spec.runtimeRef: Required value",
		},
		"runtimeRef.name is required": {
			good: []string{"{runtimeRef: {name: r}}"},
			bad:  []string{"{runtimeRef: {}}"}, words: "spec.runtimeRef.name: Required value",
		},
		"runtimeRef.name is not empty": {
			bad: []string{"{runtimeRef: {name: ''}}"}, words: "spec.runtimeRef.name in body should be at least 1 chars long",
		},
		"runtimeRef.name has at most 253 characters": {
			good: []string{"{runtimeRef: {name: " + text(253) + "}}"},
			bad:  []string{"{runtimeRef: {name: " + text(254) + "}}"}, words: "spec.runtimeRef.name: Too long: may not be more than 253 bytes",
		},
		"runtimeRef.kind is any word of at most 253 characters": {
			good: []string{"{runtimeRef: {name: r, kind: Sled}}", "{runtimeRef: {name: r, kind: " + text(253) + "}}"},
			bad:  []string{"{runtimeRef: {name: r, kind: " + text(254) + "}}"}, words: "spec.runtimeRef.kind: Too long: may not be more than 253 bytes",
		},
		"runtimeRef.apiGroup is any word of at most 253 characters": {
			good: []string{"{runtimeRef: {name: r, apiGroup: example.org}}", "{runtimeRef: {name: r, apiGroup: " + text(253) + "}}"},
			bad:  []string{"{runtimeRef: {name: r, apiGroup: " + text(254) + "}}"}, words: "spec.runtimeRef.apiGroup: Too long: may not be more than 253 bytes",
		},
		"a dataset's storageUri is empty or has a scheme": {
			good: []string{dataset("{}"), dataset("{storageUri: ''}"), dataset("{storageUri: 's3://bucket/data'}"), dataset("{storageUri: 'a+b.c-1://x'}")},
			bad:  []string{dataset("{storageUri: data}"), dataset("{storageUri: 's3://'}"), dataset("{storageUri: '1a://x'}"), dataset("{storageUri: /data}")}, words: uriWords,
		},
		"a dataset's storageUri has at most 2048 characters": {
			good: []string{dataset("{storageUri: 's3://" + text(2043) + "'}")},
			bad:  []string{dataset("{storageUri: 's3://" + text(2044) + "'}")}, words: "spec.initializer.dataset.storageUri: Too long: may not be more than 2048 bytes",
		},
		"a dataset has at most 128 variables": {
			good: []string{dataset("{env: " + list(128, "{name: e%d}") + "}")},
			bad:  []string{dataset("{env: " + list(129, "{name: e%d}") + "}")}, words: "spec.initializer.dataset.env: Too many: 129: must have at most 128 items",
		},
		"a dataset's variables have different names": {
			bad: []string{dataset("{env: [{name: a}, {name: a}]}")}, words: `spec.initializer.dataset.env[1]: Duplicate value: {"name":"a"}`,
		},
		"a model's storageUri is empty or has a scheme": {
			good: []string{"{runtimeRef: {name: r}, initializer: {model: {storageUri: 'hf://org/model'}}}"},
			bad:  []string{"{runtimeRef: {name: r}, initializer: {model: {storageUri: model}}}"}, words: uriWords,
		},
		"a model's storageUri has at most 2048 characters": {
			bad: []string{"{runtimeRef: {name: r}, initializer: {model: {storageUri: 's3://" + text(2044) + "'}}}"}, words: "spec.initializer.model.storageUri: Too long: may not be more than 2048 bytes",
		},
		"a model has at most 128 variables": {
			good: []string{"{runtimeRef: {name: r}, initializer: {model: {env: " + list(128, "{name: e%d}") + "}}}"},
			bad:  []string{"{runtimeRef: {name: r}, initializer: {model: {env: " + list(129, "{name: e%d}") + "}}}"}, words: "spec.initializer.model.env: Too many: 129: must have at most 128 items",
		},
		"a model's variables have different names": {
			bad: []string{"{runtimeRef: {name: r}, initializer: {model: {env: [{name: a}, {name: a}]}}}"}, words: `spec.initializer.model.env[1]: Duplicate value: {"name":"a"}`,
		},
		"an image has at most 500 characters": {
			good: []string{trainer("{image: " + text(500) + "}")},
			bad:  []string{trainer("{image: " + text(501) + "}")}, words: "spec.trainer.image: Too long: may not be more than 500 bytes",
		},
		"a command has at most 128 words": {
			good: []string{trainer("{command: " + list(128, "w") + "}")},
			bad:  []string{trainer("{command: " + list(129, "w") + "}")}, words: "spec.trainer.command: Too many: 129: must have at most 128 items",
		},
		"a command's word has at most 1 MiB": {
			good: []string{trainer("{command: [" + text(1048576) + "]}")},
			bad:  []string{trainer("{command: [" + text(1048577) + "]}")}, words: "spec.trainer.command[0]: Too long: may not be more than 1048576 bytes",
		},
		"there are at most 128 arguments": {
			good: []string{trainer("{args: " + list(128, "w") + "}")},
			bad:  []string{trainer("{args: " + list(129, "w") + "}")}, words: "spec.trainer.args: Too many: 129: must have at most 128 items",
		},
		"an argument has at most 1 MiB": {
			good: []string{trainer("{args: [" + text(1048576) + "]}")},
			bad:  []string{trainer("{args: [" + text(1048577) + "]}")}, words: "spec.trainer.args[0]: Too long: may not be more than 1048576 bytes",
		},
		"a trainer has at most 128 variables": {
			good: []string{trainer("{env: " + list(128, "{name: e%d}") + "}")},
			bad:  []string{trainer("{env: " + list(129, "{name: e%d}") + "}")}, words: "spec.trainer.env: Too many: 129: must have at most 128 items",
		},
		"a trainer's variables have different names": {
			bad: []string{trainer("{env: [{name: a}, {name: a}]}")}, words: `spec.trainer.env[1]: Duplicate value: {"name":"a"}`,
		},
		"numbers of nodes and processes have no limits here": {
			good: []string{trainer("{numNodes: 0, numProcPerNode: 0}"), trainer("{numNodes: -1, numProcPerNode: -1}")},
		},
		"numbers of nodes are numbers": {
			bad: []string{trainer("{numNodes: '2'}"), trainer("{numNodes: auto}")}, words: `spec.trainer.numNodes: Invalid value: "string"`,
		},
		"numbers of processes are numbers": {
			bad: []string{trainer("{numProcPerNode: auto}")}, words: `spec.trainer.numProcPerNode: Invalid value: "string"`,
		},
		"quantities are quantities": {
			good: []string{trainer("{resourcesPerNode: {requests: {cpu: 2, memory: 4Gi}}}")},
			bad:  []string{trainer("{resourcesPerNode: {requests: {cpu: many}}}")}, words: "spec.trainer.resourcesPerNode.requests.cpu in body should match",
		},
		"suspend is true or false": {
			good: []string{"{runtimeRef: {name: r}, suspend: true}"},
			bad:  []string{"{runtimeRef: {name: r}, suspend: 'yes'}"}, words: `spec.suspend: Invalid value: "string"`,
		},
		"a deadline is at least a second": {
			good:  []string{"{runtimeRef: {name: r}, activeDeadlineSeconds: 1}"},
			bad:   []string{"{runtimeRef: {name: r}, activeDeadlineSeconds: 0}", "{runtimeRef: {name: r}, activeDeadlineSeconds: -1}"},
			words: "spec.activeDeadlineSeconds in body should be greater than or equal to 1",
		},
		"managedBy is one of two": {
			good:  []string{"{runtimeRef: {name: r}, managedBy: trainer.kubeflow.org/trainjob-controller}", "{runtimeRef: {name: r}, managedBy: kueue.x-k8s.io/multikueue}"},
			bad:   []string{"{runtimeRef: {name: r}, managedBy: ''}", "{runtimeRef: {name: r}, managedBy: somebody}"},
			words: "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set",
		},
	})
}

func TestTrainJobNames(t *testing.T) {
	named := func(name string) string {
		return "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: " + name + "}, spec: {runtimeRef: {name: r}}}"
	}
	const label = "metadata.name must match RFC 1035 DNS label format"
	checkRules(t, named, map[string]rule{
		"a name is a DNS label": {
			good: []string{"a", "a-1", "job7"},
			bad:  []string{"1job", "a.b", "'7'"}, words: label,
		},
		"a name has at most 63 characters": {
			good: []string{text(63)},
			bad:  []string{text(64)}, words: "metadata.name must be no more than 63 characters",
		},
	})
}

func TestRuntimePatches(t *testing.T) {
	jobs := func(list string) string {
		return patches("[{manager: a.io/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: " + list + "}}}}]")
	}
	const pod = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec."
	checkRules(t, trainJob, map[string]rule{
		"a manager is required": {
			bad: []string{patches("[{}]")}, words: "spec.runtimePatches[0].manager: Required value",
		},
		"a manager has 1 to 253 characters": {
			good: []string{patches("[{manager: a}]"), patches("[{manager: " + text(253) + "}]")},
			bad:  []string{patches("[{manager: " + text(254) + "}]")}, words: "spec.runtimePatches[0].manager: Too long: may not be more than 253 bytes",
		},
		"a manager is not empty": {
			bad: []string{patches("[{manager: ''}]")}, words: "spec.runtimePatches[0].manager in body should be at least 1 chars long",
		},
		"managers are different": {
			bad: []string{patches("[{manager: a}, {manager: a}]")}, words: `spec.runtimePatches[1]: Duplicate value: {"manager":"a"}`,
		},
		"there are at most 16 patches": {
			good: []string{patches(list(16, "{manager: m%d}"))},
			bad:  []string{patches(list(17, "{manager: m%d}"))}, words: "spec.runtimePatches: Too many: 17: must have at most 16 items",
		},
		"a time is a time": {
			good: []string{patches("[{manager: a, time: '2026-05-01T15:20:00Z'}]")},
			bad:  []string{patches("[{manager: a, time: yesterday}]")}, words: "spec.runtimePatches[0].time in body must be of type date-time",
		},
		"a patch has at most 100 replicated jobs": {
			good: []string{jobs(list(100, "{name: j%d}"))},
			bad:  []string{jobs(list(101, "{name: j%d}"))}, words: "replicatedJobs: Too many: 101: must have at most 100 items",
		},
		"replicated jobs have different names": {
			bad: []string{jobs("[{name: a}, {name: a}]")}, words: `replicatedJobs[1]: Duplicate value: {"name":"a"}`,
		},
		"a replicated job has a name": {
			bad: []string{jobs("[{}]")}, words: "replicatedJobs[0].name: Required value",
		},
		"a replicated job's name is not empty": {
			bad: []string{jobs("[{name: ''}]")}, words: "replicatedJobs[0].name in body should be at least 1 chars long",
		},
		"a replicated job's name has at most 253 characters": {
			good: []string{jobs("[{name: " + text(253) + "}]")},
			bad:  []string{jobs("[{name: " + text(254) + "}]")}, words: "replicatedJobs[0].name: Too long: may not be more than 253 bytes",
		},
		"a serviceAccountName has at most 253 characters": {
			good: []string{podPatch("{serviceAccountName: " + text(253) + "}")},
			bad:  []string{podPatch("{serviceAccountName: " + text(254) + "}")}, words: pod + "serviceAccountName: Too long: may not be more than 253 bytes",
		},
		"there are at most 128 volumes": {
			good: []string{podPatch("{volumes: " + list(128, "{name: v%d}") + "}")},
			bad:  []string{podPatch("{volumes: " + list(129, "{name: v%d}") + "}")}, words: pod + "volumes: Too many: 129: must have at most 128 items",
		},
		"volumes have different names": {
			bad: []string{podPatch("{volumes: [{name: a}, {name: a}]}")}, words: pod + `volumes[1]: Duplicate value: {"name":"a"}`,
		},
		"there are at most 64 init containers": {
			good: []string{podPatch("{initContainers: " + list(64, "{name: c%d}") + "}")},
			bad:  []string{podPatch("{initContainers: " + list(65, "{name: c%d}") + "}")}, words: pod + "initContainers: Too many: 65: must have at most 64 items",
		},
		"there are at most 64 containers": {
			good: []string{podPatch("{containers: " + list(64, "{name: c%d}") + "}")},
			bad:  []string{podPatch("{containers: " + list(65, "{name: c%d}") + "}")}, words: pod + "containers: Too many: 65: must have at most 64 items",
		},
		"containers have different names": {
			bad: []string{podPatch("{containers: [{name: a}, {name: a}]}")}, words: pod + `containers[1]: Duplicate value: {"name":"a"}`,
		},
		"a container has a name": {
			bad: []string{podPatch("{containers: [{}]}")}, words: pod + "containers[0].name: Required value",
		},
		"a container's name is not empty": {
			bad: []string{podPatch("{containers: [{name: ''}]}")}, words: pod + "containers[0].name in body should be at least 1 chars long",
		},
		"a container's name has at most 253 characters": {
			good: []string{podPatch("{containers: [{name: " + text(253) + "}]}")},
			bad:  []string{podPatch("{containers: [{name: " + text(254) + "}]}")}, words: pod + "containers[0].name: Too long: may not be more than 253 bytes",
		},
		"a container has at most 128 variables": {
			good: []string{podPatch("{containers: [{name: c, env: " + list(128, "{name: e%d}") + "}]}")},
			bad:  []string{podPatch("{containers: [{name: c, env: " + list(129, "{name: e%d}") + "}]}")}, words: pod + "containers[0].env: Too many: 129: must have at most 128 items",
		},
		"a container has at most 128 mounts": {
			good: []string{podPatch("{containers: [{name: c, volumeMounts: " + list(128, "{name: v%d, mountPath: /v%d}") + "}]}")},
			bad:  []string{podPatch("{containers: [{name: c, volumeMounts: " + list(129, "{name: v%d, mountPath: /v%d}") + "}]}")}, words: pod + "containers[0].volumeMounts: Too many: 129: must have at most 128 items",
		},
		"a container mounts a volume once": {
			bad: []string{podPatch("{containers: [{name: c, volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}]}")}, words: pod + `containers[0].volumeMounts[1]: Duplicate value: {"name":"v"}`,
		},
		"there are at most 64 image pull secrets": {
			good: []string{podPatch("{imagePullSecrets: " + list(64, "{name: s%d}") + "}")},
			bad:  []string{podPatch("{imagePullSecrets: " + list(65, "{name: s%d}") + "}")}, words: pod + "imagePullSecrets: Too many: 65: must have at most 64 items",
		},
		"image pull secrets have different names": {
			bad: []string{podPatch("{imagePullSecrets: [{name: a}, {name: a}]}")}, words: pod + `imagePullSecrets[1]: Duplicate value: {"name":"a"}`,
		},
		"there are at most 128 tolerations, which may be equal": {
			good: []string{podPatch("{tolerations: " + list(128, "{operator: Exists}") + "}")},
			bad:  []string{podPatch("{tolerations: " + list(129, "{operator: Exists}") + "}")}, words: pod + "tolerations: Too many: 129: must have at most 128 items",
		},
		"there are at most 16 scheduling gates": {
			good: []string{podPatch("{schedulingGates: " + list(16, "{name: g%d}") + "}")},
			bad:  []string{podPatch("{schedulingGates: " + list(17, "{name: g%d}") + "}")}, words: pod + "schedulingGates: Too many: 17: must have at most 16 items",
		},
		"scheduling gates have different names": {
			bad: []string{podPatch("{schedulingGates: [{name: a}, {name: a}]}")}, words: pod + `schedulingGates[1]: Duplicate value: {"name":"a"}`,
		},
		"a grace period is not negative": {
			good: []string{podPatch("{terminationGracePeriodSeconds: 0}")},
			bad:  []string{podPatch("{terminationGracePeriodSeconds: -1}")}, words: pod + "terminationGracePeriodSeconds in body should be greater than or equal to 0",
		},
	})
}
