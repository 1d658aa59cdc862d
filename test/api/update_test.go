package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is an update of a spec, and the words that refuse it: none if it is
// admitted.
type change struct{ before, after, words string }

func checkChanges(t *testing.T, of func(spec string) string, changes map[string]change) {
	t.Helper()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := create(t, of(c.before))
			o.Object["spec"] = object(t, of(c.after)).Object["spec"]
			err := apiServer.Update(t.Context(), o, client.DryRunAll)
			if c.words == "" {
				require.NoError(t, err)
				return
			}
			refused(t, err, c.words)
		})
	}
}

func TestChangesOfTrainJobs(t *testing.T) {
	const ref = "{runtimeRef: {name: r}"
	const pod = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec."
	checkChanges(t, trainJob, map[string]change{
		"the runtime's name is immutable":         {ref + "}", "{runtimeRef: {name: s}}", "spec.runtimeRef: Invalid value"},
		"the runtime's kind is immutable":         {ref + "}", "{runtimeRef: {name: r, kind: TrainingRuntime}}", "field is immutable"},
		"a default written out is no change":      {ref + "}", "{runtimeRef: {name: r, kind: ClusterTrainingRuntime, apiGroup: trainer.kubeflow.org}, managedBy: trainer.kubeflow.org/trainjob-controller, suspend: false}", ""},
		"the initializer is immutable":            {dataset("{storageUri: 's3://a'}"), dataset("{storageUri: 's3://b'}"), "spec.initializer: Invalid value"},
		"an initializer's part is immutable":      {dataset("{storageUri: 's3://a'}"), "{runtimeRef: {name: r}, initializer: {dataset: {storageUri: 's3://a'}, model: {}}}", "field is immutable"},
		"the trainer is immutable":                {trainer("{numNodes: 1}"), trainer("{numNodes: 2}"), "spec.trainer: Invalid value"},
		"the order of a command is immutable":     {trainer("{command: [a, b]}"), trainer("{command: [b, a]}"), "field is immutable"},
		"the deadline is immutable":               {ref + ", activeDeadlineSeconds: 5}", ref + ", activeDeadlineSeconds: 6}", "spec.activeDeadlineSeconds: Invalid value"},
		"managedBy is immutable":                  {ref + "}", ref + ", managedBy: kueue.x-k8s.io/multikueue}", "field is immutable"},
		"a job is suspended":                      {ref + "}", ref + ", suspend: true}", ""},
		"a job is resumed":                        {ref + ", suspend: true}", ref + ", suspend: false}", ""},
		"what is absent may be added":             {ref + "}", ref + ", trainer: {numNodes: 2}, initializer: {dataset: {}}, activeDeadlineSeconds: 5}", ""},
		"what is there may be taken away":         {ref + ", trainer: {numNodes: 2}, initializer: {dataset: {}}, activeDeadlineSeconds: 5}", ref + "}", ""},
		"a manager brings a patch":                {ref + "}", patches("[{manager: a.io/b}]"), ""},
		"a manager takes its patch away":          {patches("[{manager: a.io/b}, {manager: c.io/d}]"), patches("[{manager: c.io/d}]"), ""},
		"another manager is another patch":        {patches("[{manager: a.io/b}]"), patches("[{manager: c.io/d}]"), ""},
		"a patch's labels change":                 {patches("[{manager: a.io/b, trainingRuntimeSpec: {template: {metadata: {labels: {a: b}}}}}]"), patches("[{manager: a.io/b, trainingRuntimeSpec: {template: {metadata: {labels: {a: c}}}}}]"), ""},
		"a patch's nodeSelector changes":          {podPatch("{nodeSelector: {a: b}}"), podPatch("{nodeSelector: {a: c}}"), ""},
		"a patch's affinity changes":              {podPatch("{affinity: {nodeAffinity: {}}}"), podPatch("{affinity: {podAffinity: {}}}"), ""},
		"a patch's tolerations change":            {podPatch("{tolerations: [{key: a}]}"), podPatch("{tolerations: [{key: b}]}"), ""},
		"a patch's schedulingGates change":        {podPatch("{schedulingGates: [{name: a}]}"), podPatch("{schedulingGates: [{name: b}]}"), ""},
		"a patch's service account is immutable":  {podPatch("{serviceAccountName: a}"), podPatch("{serviceAccountName: b}"), pod + "serviceAccountName: Invalid value"},
		"a patch's volumes are immutable":         {podPatch("{volumes: [{name: a}]}"), podPatch("{volumes: [{name: b}]}"), pod + "volumes: Invalid value"},
		"a patch's init containers are immutable": {podPatch("{initContainers: [{name: a}]}"), podPatch("{initContainers: [{name: b}]}"), pod + "initContainers: Invalid value"},
		"a patch's containers are immutable":      {podPatch("{containers: [{name: a}]}"), podPatch("{containers: [{name: a, env: [{name: e}]}]}"), pod + "containers: Invalid value"},
		"a patch's pull secrets are immutable":    {podPatch("{imagePullSecrets: [{name: a}]}"), podPatch("{imagePullSecrets: [{name: b}]}"), pod + "imagePullSecrets: Invalid value"},
		"a patch's security is immutable":         {podPatch("{securityContext: {runAsUser: 1}}"), podPatch("{securityContext: {runAsUser: 2}}"), pod + "securityContext: Invalid value"},
		"a patch's grace period is immutable":     {podPatch("{terminationGracePeriodSeconds: 1}"), podPatch("{terminationGracePeriodSeconds: 2}"), pod + "terminationGracePeriodSeconds: Invalid value"},
	})
}

func TestChangesOfRuntimes(t *testing.T) {
	const immutable = "Value is immutable"
	checkChanges(t, runtime, map[string]change{
		"policies change":                       {policy("{numNodes: 1, torch: {}}"), policy("{numNodes: 2, mpi: {}}"), ""},
		"replicated jobs come":                  {jobSet("{replicatedJobs: []}"), job(""), ""},
		"a replicated job's replicas change":    {job(""), job(", replicas: 2"), ""},
		"a JobSet's failure policy stays":       {jobSet("{failurePolicy: {maxRestarts: 1}}"), jobSet("{failurePolicy: {maxRestarts: 2}}"), immutable},
		"a JobSet's network stays":              {jobSet("{network: {subdomain: a}}"), jobSet("{network: {subdomain: b}}"), immutable},
		"a JobSet's startup policy stays":       {jobSet("{startupPolicy: {startupPolicyOrder: AnyOrder}}"), jobSet("{startupPolicy: {startupPolicyOrder: InOrder}}"), immutable},
		"a JobSet's success policy stays":       {jobSet("{successPolicy: {operator: All}}"), jobSet("{successPolicy: {operator: Any}}"), immutable},
		"a JobSet's claims stay":                {jobSet("{volumeClaimPolicies: [{templates: []}]}"), jobSet("{volumeClaimPolicies: [{templates: []}, {templates: []}]}"), immutable},
		"what a replicated job waits for stays": {job(", dependsOn: [{name: a, status: Ready}]"), job(", dependsOn: [{name: a, status: Complete}]"), immutable},
	})
}
