package api

import "testing"

func TestRuntimePolicies(t *testing.T) {
	targets := func(list string) string { return policy("{torch: {envInjection: {targets: " + list + "}}}") }
	const onlyOne = "Only one of the policy can be configured"
	checkRules(t, runtime, map[string]rule{
		"a spec is not empty": {
			bad: []string{"{}"}, words: "spec in body should have at least 1 properties",
		},
		"a template is not empty": {
			bad: []string{"{template: {}}"}, words: "spec.template in body should have at least 1 properties",
		},
		"there is at most one policy": {
			good: []string{policy("{}"), policy("{numNodes: 2}"), policy("{torch: {}}"), policy("{mpi: {}}"), policy("{jax: {}}"), policy("{xgboost: {}}"), policy("{flux: {}}")},
			bad: []string{
				policy("{torch: {}, mpi: {}}"), policy("{mpi: {}, jax: {}}"), policy("{jax: {}, xgboost: {}}"),
				policy("{xgboost: {}, flux: {}}"), policy("{flux: {}, torch: {}}"), policy("{torch: {}, mpi: {}, jax: {}, xgboost: {}, flux: {}}"),
			},
			words: onlyOne,
		},
		"the number of nodes has no limits here": {
			good: []string{policy("{numNodes: 0}"), policy("{numNodes: -1}")},
		},
		"variables are injected into at most 16 replicated jobs": {
			good: []string{targets(list(16, "{jobName: j%d, containerNames: [c]}"))},
			bad:  []string{targets(list(17, "{jobName: j%d, containerNames: [c]}"))}, words: "spec.mlPolicy.torch.envInjection.targets: Too many: 17: must have at most 16 items",
		},
		"replicated jobs with variables are different": {
			bad: []string{targets("[{jobName: a, containerNames: [b]}, {jobName: a, containerNames: [c]}]")}, words: `targets[1]: Duplicate value: {"jobName":"a"}`,
		},
		"a replicated job with variables has a name": {
			bad: []string{targets("[{containerNames: [b]}]")}, words: "targets[0].jobName: Required value",
		},
		"its name is not empty": {
			bad: []string{targets("[{jobName: '', containerNames: [b]}]")}, words: "targets[0].jobName in body should be at least 1 chars long",
		},
		"its name has at most 253 characters": {
			good: []string{targets("[{jobName: " + text(253) + ", containerNames: [b]}]")},
			bad:  []string{targets("[{jobName: " + text(254) + ", containerNames: [b]}]")}, words: "targets[0].jobName: Too long: may not be more than 253 bytes",
		},
		"its containers are required": {
			bad: []string{targets("[{jobName: a}]")}, words: "targets[0].containerNames: Required value",
		},
		"it has at least one container": {
			bad: []string{targets("[{jobName: a, containerNames: []}]")}, words: "targets[0].containerNames in body should have at least 1 items",
		},
		"it has at most 8 containers": {
			good: []string{targets("[{jobName: a, containerNames: " + list(8, "c%d") + "}]")},
			bad:  []string{targets("[{jobName: a, containerNames: " + list(9, "c%d") + "}]")}, words: "targets[0].containerNames: Too many: 9: must have at most 8 items",
		},
		"its containers' names have at most 63 characters": {
			good: []string{targets("[{jobName: a, containerNames: [" + text(63) + "]}]")},
			bad:  []string{targets("[{jobName: a, containerNames: [" + text(64) + "]}]")}, words: "targets[0].containerNames[0]: Too long: may not be more than 63 bytes",
		},
		"its containers are different": {
			bad: []string{targets("[{jobName: a, containerNames: [b, b]}]")}, words: `targets[0].containerNames[1]: Duplicate value: "b"`,
		},
		"the container that trains has them anyway": {
			bad:   []string{targets("[{jobName: a, containerNames: [b, node]}]")},
			words: "containerNames must not include the main node container because PET_* envs are always injected into it",
		},
		"there are three implementations of MPI": {
			good: []string{
				policy("{mpi: {mpiImplementation: OpenMPI}}"), policy("{mpi: {mpiImplementation: Intel}}"),
				policy("{mpi: {mpiImplementation: MPICH}}"), policy("{mpi: {mpiImplementation: ''}}"),
			},
			bad:   []string{policy("{mpi: {mpiImplementation: invalid}}"), policy("{mpi: {mpiImplementation: openmpi}}")},
			words: `spec.mlPolicy.mpi.mpiImplementation: Unsupported value: `,
		},
		"the path of the SSH keys has at most 4096 characters": {
			good: []string{policy("{mpi: {sshAuthMountPath: " + text(4096) + "}}")},
			bad:  []string{policy("{mpi: {sshAuthMountPath: " + text(4097) + "}}")}, words: "spec.mlPolicy.mpi.sshAuthMountPath: Too long: may not be more than 4096 bytes",
		},
		"Flux has at least one process on each node": {
			good: []string{policy("{flux: {numProcPerNode: 1}}")},
			bad:  []string{policy("{flux: {numProcPerNode: 0}}")}, words: "NumProcPerNode in fluxPolicy must be >= 1",
		},
		"both gang schedulers may be asked": {
			good: []string{"{podGroupPolicy: {coscheduling: {}, volcano: {}}}"},
		},
		"Volcano's topology is hard or soft": {
			good: []string{"{podGroupPolicy: {volcano: {networkTopology: {mode: hard}}}}", "{podGroupPolicy: {volcano: {networkTopology: {mode: soft}}}}"},
			bad:  []string{"{podGroupPolicy: {volcano: {networkTopology: {mode: medium}}}}"}, words: `spec.podGroupPolicy.volcano.networkTopology.mode: Unsupported value: "medium"`,
		},
	})
}

// The rules that come with the JobSet's spec.
func TestRuntimeTemplates(t *testing.T) {
	const template = "template: {spec: {template: {spec: {containers: []}}}}"
	ordered := func(order, dependsOn string) string {
		return jobSet("{startupPolicy: {startupPolicyOrder: " + order + "}, replicatedJobs: [{name: a, " + template + "}, {name: b, " + template + dependsOn + "}]}")
	}
	const after = ", dependsOn: [{name: a, status: Ready}]"
	checkRules(t, runtime, map[string]rule{
		"a template may have metadata alone": {
			good: []string{"{template: {metadata: {labels: {a: b}}}}"},
		},
		"replicated jobs have different names": {
			good: []string{jobSet("{replicatedJobs: [{name: a, " + template + "}, {name: b, " + template + "}]}")},
			bad:  []string{jobSet("{replicatedJobs: [{name: a, " + template + "}, {name: a, " + template + "}]}")}, words: `spec.template.spec.replicatedJobs[1]: Duplicate value: {"name":"a"}`,
		},
		"a replicated job waits for at most 5 others": {
			good: []string{job(", dependsOn: " + list(5, "{name: j%d, status: Ready}"))},
			bad:  []string{job(", dependsOn: " + list(6, "{name: j%d, status: Ready}"))}, words: "spec.template.spec.replicatedJobs[0].dependsOn: Too many: 6: must have at most 5 items",
		},
		"a replicated job waits for Ready or Complete": {
			good: []string{job(after), job(", dependsOn: [{name: a, status: Complete}]")},
			bad:  []string{job(", dependsOn: [{name: a, status: Running}]")}, words: `spec.template.spec.replicatedJobs[0].dependsOn[0].status: Unsupported value: "Running"`,
		},
		"startup in order and dependsOn exclude each other": {
			good: []string{ordered("InOrder", ""), ordered("AnyOrder", after)},
			bad:  []string{ordered("InOrder", after)}, words: "StartupPolicy and DependsOn APIs are mutually exclusive",
		},
		"a JobSet's restart strategy is known": {
			good: []string{jobSet("{failurePolicy: {restartStrategy: BlockingRecreate}}")},
			bad:  []string{jobSet("{failurePolicy: {restartStrategy: Never}}")}, words: `spec.template.spec.failurePolicy.restartStrategy: Unsupported value: "Never"`,
		},
		"a JobSet's failure action is known": {
			good: []string{jobSet("{failurePolicy: {rules: [{name: r, action: FailJobSet}]}}")},
			bad:  []string{jobSet("{failurePolicy: {rules: [{name: r, action: Explode}]}}")}, words: `spec.template.spec.failurePolicy.rules[0].action: Unsupported value: "Explode"`,
		},
		"a JobSet succeeds by all or any": {
			good: []string{jobSet("{successPolicy: {operator: All}}")},
			bad:  []string{jobSet("{successPolicy: {operator: Most}}")}, words: `spec.template.spec.successPolicy.operator: Unsupported value: "Most"`,
		},
		"a JobSet lives on for no negative time": {
			good: []string{jobSet("{ttlSecondsAfterFinished: 0}")},
			bad:  []string{jobSet("{ttlSecondsAfterFinished: -1}")}, words: "spec.template.spec.ttlSecondsAfterFinished in body should be greater than or equal to 0",
		},
		"claims are of the JobSet's namespace": {
			good: []string{jobSet("{volumeClaimPolicies: [{templates: [{metadata: {name: a}, spec: {}}]}]}")},
			bad:  []string{jobSet("{volumeClaimPolicies: [{templates: [{metadata: {name: a, namespace: b}, spec: {}}]}]}")}, words: "namespace cannot be set for VolumeClaimPolicies templates",
		},
	})
}
