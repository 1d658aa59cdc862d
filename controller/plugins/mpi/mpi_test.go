package mpi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/jobset"
	"github.com/gangline/gangline/controller/plugins/mpi"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/golden"
)

// deepspeed is Kubeflow's runtime of that name, with what does not matter here
// left out.
const deepspeed = `
metadata: {name: deepspeed-distributed}
spec:
  mlPolicy:
    numNodes: 1
    mpi:
      numProcPerNode: 1
      mpiImplementation: OpenMPI
      sshAuthMountPath: /home/mpiuser/.ssh
      runLauncherAsNode: true
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: ghcr.io/kubeflow/trainer/deepspeed-runtime
                  command: [/usr/sbin/sshd]
      - name: launcher
        replicas: 1
        dependsOn: [{name: node, status: Ready}]
        template:
          metadata:
            labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: ghcr.io/kubeflow/trainer/deepspeed-runtime
                  env:
                  - {name: OMP_NUM_THREADS, value: "1"}
                - name: sidecar
                  image: example.com/sidecar
`

// kep is KEP-2170's example of an MPI runtime.
const kep = `
metadata: {name: deepspeed}
spec:
  mlPolicy:
    numNodes: 2
    mpi: {mpiImplementation: OpenMPI, numProcPerNode: 5}
  template:
    spec:
      replicatedJobs:
      - name: launcher
        template:
          spec:
            template:
              metadata:
                labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
              spec:
                containers:
                - name: mpi-launcher
                  image: docker.io/mpi-launch
                  command: [mpirun launch-job]
      - name: node
        template:
          spec:
            template:
              spec:
                containers:
                - name: trainer
                  image: docker.io/deepspeed-trainer
                  resources: {limits: {nvidia.com/gpu: 5}}
`

// runtime is one with both jobs and the given policy.
func runtime(policy string) string {
	return `
spec:
  mlPolicy: {numNodes: 1, mpi: ` + policy + `}
  template:
    spec:
      replicatedJobs:
      - name: node
        template: {spec: {template: {spec: {containers: [{name: node}]}}}}
      - name: launcher
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node}]}}}
`
}

// trainJob is one with the given spec.trainer.
func trainJob(trainer string) string {
	return `{metadata: {name: ds}, spec: {trainer: ` + trainer + `}}`
}

// enforce runs the plugin's part of the pipeline up to the components, and the
// pods' network as the JobSet has it.
func enforce(t *testing.T, job, runtime, cluster string) (*framework.Info, []framework.Component, error) {
	t.Helper()
	info, trainJob := trainertest.Info(t, job, runtime)
	info.Cluster = cluster
	plugin := mpi.New()
	if err := plugin.EnforceMLPolicy(info, trainJob); err != nil {
		return info, nil, err
	}
	require.NoError(t, jobset.New(nil).IdentifyPodNetwork(info, trainJob))
	components, err := plugin.Build(t.Context(), info, trainJob)
	return info, components, err
}

func TestEnforceAndBuild(t *testing.T) {
	intel, mpich := runtime(`{mpiImplementation: Intel}`), runtime(`{mpiImplementation: MPICH}`)
	for name, tc := range map[string]struct {
		trainJob, runtime, cluster, golden string
	}{
		"Kubeflow's runtime, whose launcher is a node": {
			trainJob(`{numNodes: 4, numProcPerNode: 2}`), deepspeed, "", "openmpi.yaml"},
		"Open MPI on the HPC side gets PRRTE's variables too": {
			trainJob(`{numNodes: 4, numProcPerNode: 2}`), deepspeed, "alps", "openmpi-cluster.yaml"},
		"the KEP's runtime, whose containers are called otherwise": {
			trainJob(`{}`), kep, "", "kep.yaml"},
		"MPICH":                 {trainJob(`{numNodes: 2}`), mpich, "", "mpich.yaml"},
		"MPICH on the HPC side": {trainJob(`{numNodes: 2}`), mpich, "alps", "mpich.yaml"},
		"Intel MPI": {
			trainJob(`{numNodes: 2, numProcPerNode: 3}`), intel, "", "intel.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			info, components, err := enforce(t, tc.trainJob, tc.runtime, tc.cluster)
			require.NoError(t, err)
			require.Len(t, components, 2)
			hostfile, err := components[1].Object()
			require.NoError(t, err)
			golden.Equal(t, "testdata/"+tc.golden, trainertest.YAML(t, info.Template)+"---\n"+trainertest.YAML(t, hostfile))
		})
	}
}

func TestOtherRuntimesAreLeftAlone(t *testing.T) {
	torch := `{spec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node}]}}}}`
	for name, runtime := range map[string]string{
		"no policy": `{spec: {template: {spec: {replicatedJobs: [{name: node}]}}}}`,
		"torch":     torch,
	} {
		t.Run(name, func(t *testing.T) {
			want, job := trainertest.Info(t, trainJob(`{numNodes: 0, env: [{name: OMPI_MCA_plm_rsh_args}]}`), runtime)
			info, components, err := enforce(t, trainJob(`{numNodes: 0}`), runtime, "")
			require.NoError(t, err)
			assert.Empty(t, components)
			assert.Equal(t, want.Template, info.Template)
			_, errs := mpi.New().Validate(t.Context(), want, nil, job)
			assert.Empty(t, errs)
		})
	}
}

func TestAHostfileThatNoConfigMapHolds(t *testing.T) {
	for name, nodes := range map[string]string{
		"as many nodes as can be written":   "2147483647",
		"names that fit, lines that do not": "60000", // of 16 and of 24 bytes
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := enforce(t, trainJob(`{numNodes: `+nodes+`}`), deepspeed, "")
			require.EqualError(t, err, "the hostfile of so many nodes does not fit into a ConfigMap, which holds 1048576 bytes")
		})
	}
}

func TestHostfile(t *testing.T) {
	gpus := `resourcesPerNode: {limits: {nvidia.com/gpu: 4}}`
	for name, tc := range map[string]struct {
		trainJob, runtime, want string
	}{
		"one node and its launcher make two pods": {trainJob(`{numNodes: 1}`), deepspeed,
			"ds-node-0-0.ds slots=1\nds-launcher-0-0.ds slots=1\n"},
		"two nodes make the same": {trainJob(`{numNodes: 2}`), deepspeed,
			"ds-node-0-0.ds slots=1\nds-launcher-0-0.ds slots=1\n"},
		"no nodes are one, as Kubeflow has it": {trainJob(`{numNodes: 0}`), deepspeed,
			"ds-node-0-0.ds slots=1\nds-launcher-0-0.ds slots=1\n"},
		"without a number the template's stands": {trainJob(`{}`), deepspeed,
			"ds-node-0-0.ds slots=1\nds-launcher-0-0.ds slots=1\n"},
		"a launcher that is no node is left out": {trainJob(`{numNodes: 2}`), runtime(`{}`),
			"ds-node-0-0.ds slots=1\nds-node-0-1.ds slots=1\n"},
		"an empty implementation is Open MPI": {trainJob(`{}`), runtime(`{mpiImplementation: ""}`),
			"ds-node-0-0.ds slots=1\n"},
		"one process means one for each of the TrainJob's GPUs": {trainJob(`{` + gpus + `}`), runtime(`{numProcPerNode: 1}`),
			"ds-node-0-0.ds slots=4\n"},
		"the runtime's processes go before the GPUs": {trainJob(`{` + gpus + `}`), runtime(`{numProcPerNode: 2}`),
			"ds-node-0-0.ds slots=2\n"},
		"the TrainJob's one process is one": {trainJob(`{numProcPerNode: 1, ` + gpus + `}`), runtime(`{numProcPerNode: 1}`),
			"ds-node-0-0.ds slots=1\n"},
		"the KEP's nodes are the runtime's": {trainJob(`{}`), kep,
			"ds-node-0-0.ds slots=5\nds-node-0-1.ds slots=5\n"},
		"and the TrainJob's if it has some": {trainJob(`{numNodes: 1}`), kep,
			"ds-node-0-0.ds slots=5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, components, err := enforce(t, tc.trainJob, tc.runtime, "")
			require.NoError(t, err)
			object, err := components[1].Object()
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"hostfile": tc.want}, object.(*corev1.ConfigMap).Data)
		})
	}
}

func TestAnUnknownImplementationIsAnError(t *testing.T) {
	_, _, err := enforce(t, trainJob(`{env: [{name: OMPI_MCA_plm_rsh_args}]}`), runtime(`{mpiImplementation: LAM}`), "")
	assert.EqualError(t, err, `the runtime's mpiImplementation "LAM" is not known: it must be OpenMPI, MPICH or Intel`)
}

// TestAnAnnotationNamesTheImplementation: Kubeflow Trainer's own library, which others such
// as Kueue build TrainJobs with, knows the policy OpenMPI only.
func TestAnAnnotationNamesTheImplementation(t *testing.T) {
	annotated := func(where, name string) string {
		return `{metadata: {name: ` + where + `, annotations: {gangline.dev/mpi-implementation: "` + name + `"}}`
	}
	runtimeSays := func(name string) string {
		return "metadata: {annotations: {gangline.dev/mpi-implementation: \"" + name + "\"}}\n" + runtime(`{mpiImplementation: OpenMPI}`)
	}
	const hydra, openMPI = "ds-node-0-0.ds:1\n", "ds-node-0-0.ds slots=1\n"
	for name, tc := range map[string]struct{ trainJob, runtime, want string }{
		"the runtime's":              {trainJob(`{}`), runtimeSays("MPICH"), hydra},
		"the TrainJob's":             {annotated("ds", "Intel") + `}`, runtime(`{mpiImplementation: OpenMPI}`), hydra},
		"the TrainJob's goes before": {annotated("ds", "OpenMPI") + `}`, runtimeSays("MPICH"), openMPI},
		"and before the policy":      {annotated("ds", "OpenMPI") + `}`, runtime(`{mpiImplementation: MPICH}`), openMPI},
		"an empty one is none":       {annotated("ds", "") + `}`, runtime(`{mpiImplementation: MPICH}`), hydra},
	} {
		t.Run(name, func(t *testing.T) {
			_, components, err := enforce(t, tc.trainJob, tc.runtime, "")
			require.NoError(t, err)
			object, err := components[1].Object()
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"hostfile": tc.want}, object.(*corev1.ConfigMap).Data)
		})
	}
	_, _, err := enforce(t, trainJob(`{}`), runtimeSays("LAM"), "")
	require.EqualError(t, err, `the runtime's annotation gangline.dev/mpi-implementation "LAM" is not known: it must be OpenMPI, MPICH or Intel`)

	info, job := trainertest.Info(t, annotated("ds", "LAM")+`}`, deepspeed)
	_, errs := mpi.New().Validate(t.Context(), info, nil, job)
	require.Len(t, errs, 1)
	assert.Equal(t, `metadata.annotations[gangline.dev/mpi-implementation]: Unsupported value: "LAM": supported values: "Intel", "MPICH", "OpenMPI"`, errs[0].Error())

	info, job = trainertest.Info(t, annotated("ds", "MPICH")+`, spec: {runtimeRef: {name: plain}}}`, "spec: {mlPolicy: {numNodes: 1}}")
	warnings, errs := mpi.New().Validate(t.Context(), info, nil, job)
	assert.Empty(t, errs)
	require.Len(t, warnings, 1)
	assert.Equal(t, "the annotation gangline.dev/mpi-implementation has no effect: the runtime plain has no mlPolicy.mpi", warnings[0])
}

func TestTheSecretHasAWorkingKeyPair(t *testing.T) {
	_, components, err := enforce(t, trainJob(`{}`), deepspeed, "")
	require.NoError(t, err)
	component := components[0]
	assert.Equal(t, framework.Once, component.Policy)
	assert.Equal(t, framework.Always, components[1].Policy)
	assert.Equal(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ds-mpi-ssh-auth"}}, component.Kind)

	object, err := component.Object()
	require.NoError(t, err)
	secret := object.(*corev1.Secret)
	assert.Equal(t, corev1.SecretTypeSSHAuth, secret.Type)
	assert.True(t, *secret.Immutable)
	assert.Equal(t, "ds-mpi-ssh-auth", secret.Name)
	assert.Equal(t, "ds", metav1.GetControllerOf(secret).Name)
	assert.Len(t, secret.Data, 2)

	block, rest := pem.Decode(secret.Data["ssh-privatekey"])
	require.NotNil(t, block)
	assert.Empty(t, rest)
	assert.Equal(t, "EC PRIVATE KEY", block.Type)
	private, err := x509.ParseECPrivateKey(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, elliptic.P521(), private.Curve)

	signer, err := ssh.ParsePrivateKey(secret.Data["ssh-privatekey"])
	require.NoError(t, err)
	assert.Equal(t, string(ssh.MarshalAuthorizedKey(signer.PublicKey())), string(secret.Data["ssh-publickey"]))
	assert.Regexp(t, `^ecdsa-sha2-nistp521 \S+\n$`, string(secret.Data["ssh-publickey"]))

	again, err := component.Object()
	require.NoError(t, err)
	other, err := ssh.ParseRawPrivateKey(again.(*corev1.Secret).Data["ssh-privatekey"])
	require.NoError(t, err)
	assert.False(t, private.Equal(other.(*ecdsa.PrivateKey)), "each key is made anew")
}

func TestWatchesConcernTheOwner(t *testing.T) {
	kinds := map[string]bool{}
	for _, w := range mpi.New().Watches() {
		require.IsType(t, &metav1.PartialObjectMetadata{}, w.Object)
		assert.Nil(t, w.Map)
		kinds[w.Object.GetObjectKind().GroupVersionKind().String()] = true
	}
	assert.Equal(t, map[string]bool{"/v1, Kind=ConfigMap": true, "/v1, Kind=Secret": true}, kinds)
}

func TestValidate(t *testing.T) {
	noLauncher := `
spec:
  mlPolicy: {mpi: {runLauncherAsNode: true}}
  template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node}]}}}}}]}}
`
	const mustBeOne = "must have 1 when MPI trainingRuntime with enabled runLauncherAsNode does not have either launcher and node"
	const atLeastOne = "must be greater than or equal to 1 for MPI TrainJob"
	for name, tc := range map[string]struct {
		trainJob, runtime string
		want              []string
	}{
		"a plain job passes":           {trainJob(`{numNodes: 3, env: [{name: NCCL_DEBUG, value: INFO}]}`), deepspeed, nil},
		"a job without trainer passes": {`{metadata: {name: ds}}`, deepspeed, nil},
		"one node needs no launcher":   {trainJob(`{numNodes: 1}`), noLauncher, nil},
		"two nodes do": {trainJob(`{numNodes: 2}`), noLauncher,
			[]string{`spec.trainer.numNodes: Invalid value: 2: ` + mustBeOne}},
		"no nodes are refused where they are not taken for one": {trainJob(`{numNodes: 0}`), runtime(`{}`),
			[]string{`spec.trainer.numNodes: Invalid value: 0: ` + atLeastOne}},
		"fewer than none are": {trainJob(`{numNodes: -1}`), runtime(`{}`),
			[]string{`spec.trainer.numNodes: Invalid value: -1: ` + atLeastOne}},
		"no processes are refused": {trainJob(`{numProcPerNode: 0}`), deepspeed,
			[]string{`spec.trainer.numProcPerNode: Invalid value: 0: ` + atLeastOne}},
		"the runtime's too": {`{metadata: {name: ds}, spec: {runtimeRef: {name: odd}}}`, runtime(`{numProcPerNode: -2}`),
			[]string{`spec.runtimeRef: Invalid value: "odd": the runtime's mlPolicy.mpi.numProcPerNode is -2 and ` + atLeastOne +
				`; set spec.trainer.numProcPerNode`}},
		"but not if the TrainJob has better": {trainJob(`{numProcPerNode: 1}`), runtime(`{numProcPerNode: -2}`), nil},
		"the launcher's variables are reserved": {
			trainJob(`{env: [{name: OMPI_MCA_plm_rsh_args}, {name: OMPI_MCA_btl}, {name: OMPI_MCA_orte_default_hostfile}]}`), deepspeed,
			[]string{`spec.trainer.env: Invalid value: [{"name":"OMPI_MCA_plm_rsh_args"},{"name":"OMPI_MCA_btl"},{"name":"OMPI_MCA_orte_default_hostfile"}]: ` +
				`must not have reserved envs, invalid envs configured: [OMPI_MCA_orte_default_hostfile OMPI_MCA_plm_rsh_args]`}},
		"those of MPICH": {trainJob(`{env: [{name: HYDRA_HOST_FILE}]}`), runtime(`{mpiImplementation: MPICH}`),
			[]string{`spec.trainer.env: Invalid value: [{"name":"HYDRA_HOST_FILE"}]: must not have reserved envs, invalid envs configured: [HYDRA_HOST_FILE]`}},
		"those of Intel MPI": {trainJob(`{env: [{name: I_MPI_PERHOST}]}`), runtime(`{mpiImplementation: Intel}`),
			[]string{`spec.trainer.env: Invalid value: [{"name":"I_MPI_PERHOST"}]: must not have reserved envs, invalid envs configured: [I_MPI_PERHOST]`}},
		"not those of another":                                 {trainJob(`{env: [{name: I_MPI_PERHOST}]}`), runtime(`{mpiImplementation: MPICH}`), nil},
		"an unknown implementation is left to the Build phase": {trainJob(`{env: [{name: I_MPI_PERHOST}]}`), runtime(`{mpiImplementation: LAM}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			info, job := trainertest.Info(t, tc.trainJob, tc.runtime)
			warnings, errs := mpi.New().Validate(t.Context(), info, nil, job)
			assert.Empty(t, warnings)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestTheTrainJobStaysAsItIs(t *testing.T) {
	in := trainertest.Input(t, trainJob(`{numNodes: 3}`), deepspeed)
	before := in.TrainJob.DeepCopy()
	info, _ := trainertest.Info(t, trainJob(`{numNodes: 3}`), deepspeed)
	require.NoError(t, mpi.New().EnforceMLPolicy(info, in.TrainJob))
	assert.Equal(t, before, in.TrainJob)
	assert.Equal(t, int32(2), info.PodSet(v1alpha1.JobNode).Count)
	assert.Equal(t, int32(1), info.PodSet(v1alpha1.JobLauncher).Count)
}
