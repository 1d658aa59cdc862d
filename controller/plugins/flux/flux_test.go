package flux_test

import (
	"crypto/ecdh"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/flux"
	"github.com/gangline/gangline/controller/plugins/plainml"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/golden"
)

// runtime is Kubeflow's example with the given policy and training container.
func runtime(policy, container string) string {
	return `
metadata: {name: flux-distributed}
spec:
  mlPolicy: ` + policy + `
  template:
    spec:
      replicatedJobs:
      - name: node
        replicas: 1
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - ` + container + `
`
}

const ubuntu = `{name: node, image: "ubuntu:jammy"}`

var plain = runtime(`{numNodes: 1, flux: {}}`, ubuntu)

func trainJob(trainer string) string {
	return `{metadata: {name: lammps}, spec: {trainer: ` + trainer + `}}`
}

// enforce runs the plugin where it stands in the pipeline: after plainml.
func enforce(t *testing.T, job, runtime, cluster string) (*framework.Info, []framework.Component, error) {
	t.Helper()
	info, trainJob := trainertest.Info(t, job, runtime)
	info.Cluster = cluster
	require.NoError(t, plainml.New().EnforceMLPolicy(info, trainJob))
	before := trainJob.DeepCopy()
	plugin := flux.New()
	if err := plugin.EnforceMLPolicy(info, trainJob); err != nil {
		return info, nil, err
	}
	components, err := plugin.Build(t.Context(), info, trainJob)
	assert.Equal(t, before, trainJob, "the TrainJob stays as it is")
	return info, components, err
}

// scripts are the ConfigMap's.
func scripts(t *testing.T, components []framework.Component) map[string]string {
	t.Helper()
	require.Len(t, components, 2)
	object, err := components[0].Object()
	require.NoError(t, err)
	return object.(*corev1.ConfigMap).Data
}

func TestEnforce(t *testing.T) {
	const job = `{numNodes: 2, numProcPerNode: 4, command: [lmp, -in, in.reaxc.hns], env: [{name: FLUX_VIEW_IMAGE, value: "example.com/view:noble"}]}`
	for name, tc := range map[string]struct {
		trainJob, runtime, cluster, golden string
	}{
		"Kubeflow's example":                            {trainJob(job), plain, "", "lammps.yaml"},
		"the HPC side has Flux, and memory to write":    {trainJob(job), plain, "alps", "lammps-cluster.yaml"},
		"a job without trainer, in the KEP's container": {`{metadata: {name: lammps}}`, runtime(`{flux: {}}`, `{name: trainer}`), "", "no-trainer.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			info, _, err := enforce(t, tc.trainJob, tc.runtime, tc.cluster)
			require.NoError(t, err)
			golden.Equal(t, "testdata/"+tc.golden, trainertest.YAML(t, info.Template)+"---\n"+trainertest.YAML(t, info.Trainer))
		})
	}
}

func TestScripts(t *testing.T) {
	for name, tc := range map[string]struct {
		trainJob, runtime, golden string
	}{
		"two nodes": {trainJob(`{numNodes: 2, numProcPerNode: 4, command: [lmp]}`), plain, "two-nodes"},
		"the runtime's numbers, its variables and GPUs": {trainJob(`{command: [lmp]}`),
			runtime(`{numNodes: 3, flux: {numProcPerNode: 2}}`, `
                  name: node
                  env: [{name: FLUX_NETWORK_DEVICE, value: "ib0"}, {name: FLUX_QUEUE_POLICY, value: easy}]
                  resources: {limits: {nvidia.com/gpu: 4}}`), "gpus"},
	} {
		t.Run(name, func(t *testing.T) {
			_, components, err := enforce(t, tc.trainJob, tc.runtime, "")
			require.NoError(t, err)
			for script, text := range scripts(t, components) {
				golden.Equal(t, "testdata/"+tc.golden+"-"+script, text)
			}
		})
	}
}

// line is the line of a script that sets a variable.
func line(script, variable string) string {
	return regexp.MustCompile(`(?m)^` + variable + `=.*$`).FindString(script)
}

func TestTasksAndResources(t *testing.T) {
	gpus := func(n, procs string) string {
		return trainJob(`{numNodes: 2, numProcPerNode: ` + procs + `, resourcesPerNode: {limits: {nvidia.com/gpu: ` + n + `}}}`)
	}
	for name, tc := range map[string]struct {
		trainJob, runtime, tasks, resources string
	}{
		"nothing said is one": {trainJob(`{}`), plain,
			"tasks=(-N 1 -n 1)", "resources=(--cores=0)"},
		"the policy's nodes count without a trainer": {`{metadata: {name: lammps}}`, runtime(`{numNodes: 4, flux: {}}`, ubuntu),
			"tasks=(-N 4 -n 4)", "resources=(--cores=0)"},
		"-g is a task's share of the GPUs": {gpus("4", "2"), plain,
			"tasks=(-N 2 -n 4 -g 2)", "resources=(--cores=0-1 --gpus=0-3)"},
		"one GPU for each task": {gpus("4", "4"), plain,
			"tasks=(-N 2 -n 8 -g 1)", "resources=(--cores=0-3 --gpus=0-3)"},
		"GPUs that cannot be shared out are seen by all": {gpus("2", "4"), plain,
			"tasks=(-N 2 -n 8 -o gpu-affinity=off)", "resources=(--cores=0-3 --gpus=0-1)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, components, err := enforce(t, tc.trainJob, tc.runtime, "")
			require.NoError(t, err)
			entrypoint := scripts(t, components)["entrypoint.sh"]
			assert.Equal(t, tc.tasks, line(entrypoint, "tasks"))
			assert.Equal(t, tc.resources, line(entrypoint, "resources"))
		})
	}
}

func TestBrokersAreFoundInTheRuntimesSubdomain(t *testing.T) {
	odd := strings.Replace(plain, "    spec:\n      replicatedJobs:", "    spec:\n      network: {subdomain: md}\n      replicatedJobs:", 1)
	_, components, err := enforce(t, trainJob(`{}`), odd, "")
	require.NoError(t, err)
	assert.Contains(t, scripts(t, components)["init.sh"], `default_connect = "tcp://%h.md.default.svc.cluster.local:%p"`)
}

func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		trainJob, runtime, want string
	}{
		"a device that would need quoting": {trainJob(`{env: [{name: FLUX_NETWORK_DEVICE, value: "eth0\"\n[access]"}]}`), plain,
			`FLUX_NETWORK_DEVICE is "eth0\"\n[access]": it may have letters, digits and _.:@*- only`},
		"a policy that would": {trainJob(`{env: [{name: FLUX_QUEUE_POLICY, value: "a b"}]}`), plain,
			`FLUX_QUEUE_POLICY is "a b": it may have letters, digits and _.:@*- only`},
		"no training container": {trainJob(`{}`), runtime(`{flux: {}}`, `{name: other}`),
			"the runtime's policy is flux, but no job of its trainer step has a container called node: " +
				"label one with trainer.kubeflow.org/trainjob-ancestor-step: trainer"},
		"no nodes": {trainJob(`{numNodes: 0}`), plain,
			"0 nodes of 1 processes make no Flux instance: numNodes and numProcPerNode must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := enforce(t, tc.trainJob, tc.runtime, "")
			assert.EqualError(t, err, tc.want)
		})
	}
}

func TestOtherRuntimesAreLeftAlone(t *testing.T) {
	other := runtime(`{torch: {}}`, ubuntu)
	want, job := trainertest.Info(t, trainJob(`{numProcPerNode: 0}`), other)
	info, components, err := enforce(t, trainJob(`{numProcPerNode: 0}`), other, "")
	require.NoError(t, err)
	assert.Empty(t, components)
	assert.Equal(t, want, info)
	_, errs := flux.New().Validate(t.Context(), want, nil, job)
	assert.Empty(t, errs)
}

func TestValidate(t *testing.T) {
	reserved := strings.Replace(plain, "containers:", "initContainers: [{name: flux-installer}]\n                containers:", 1)
	const atLeastOne = "must be greater than or equal to 1 for Flux TrainJob"
	for name, tc := range map[string]struct {
		trainJob, runtime string
		want              []string
	}{
		"a plain job passes":           {trainJob(`{numNodes: 2, numProcPerNode: 4}`), plain, nil},
		"a job without trainer passes": {`{metadata: {name: lammps}}`, plain, nil},
		"no processes are refused": {trainJob(`{numProcPerNode: 0}`), plain,
			[]string{"spec.trainer.numProcPerNode: Invalid value: 0: " + atLeastOne}},
		"the runtime's too": {`{metadata: {name: lammps}}`, runtime(`{flux: {numProcPerNode: 0}}`, ubuntu),
			[]string{"spec.trainer.numProcPerNode: Invalid value: 0: " + atLeastOne}},
		"but not if the TrainJob has better": {trainJob(`{numProcPerNode: 1}`), runtime(`{flux: {numProcPerNode: 0}}`, ubuntu), nil},
		"no nodes are refused": {trainJob(`{numNodes: -1}`), plain,
			[]string{"spec.trainer.numNodes: Invalid value: -1: " + atLeastOne}},
		"the installer's name is reserved": {trainJob(`{}`), reserved,
			[]string{`spec.trainer.initContainers: Invalid value: "flux-installer": InitContainer 'flux-installer' is reserved`}},
	} {
		t.Run(name, func(t *testing.T) {
			info, job := trainertest.Info(t, tc.trainJob, tc.runtime)
			warnings, errs := flux.New().Validate(t.Context(), info, nil, job)
			assert.Empty(t, warnings)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestComponents(t *testing.T) {
	_, components, err := enforce(t, trainJob(`{}`), plain, "")
	require.NoError(t, err)
	require.Len(t, components, 2)
	want := []framework.Component{
		{Kind: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lammps-flux-entrypoint"}}, Policy: framework.Always},
		{Kind: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lammps-flux-curve"}}, Policy: framework.Once},
	}
	for i, c := range components {
		assert.Equal(t, want[i].Kind, c.Kind)
		assert.Equal(t, want[i].Policy, c.Policy)
		object, err := c.Object()
		require.NoError(t, err)
		assert.Equal(t, c.Kind.GetName(), object.GetName())
		assert.Equal(t, c.Kind.GetNamespace(), object.GetNamespace())
		owner := metav1.GetControllerOf(object)
		require.NotNil(t, owner)
		assert.Equal(t, v1alpha1.TrainJobKind+" lammps", owner.Kind+" "+owner.Name)
	}
}

func TestTheCertificateHasARandomKeyPair(t *testing.T) {
	_, components, err := enforce(t, trainJob(`{}`), plain, "")
	require.NoError(t, err)
	keys := func() (secret, public []byte) {
		object, err := components[1].Object()
		require.NoError(t, err)
		data := object.(*corev1.Secret).Data
		require.Len(t, data, 1)
		match := regexp.MustCompile(`^#  ZeroMQ CURVE Secret Certificate
#  Generated by Gangline

metadata
    name = "lammps"
curve
    public-key = "(.{40})"
    secret-key = "(.{40})"
$`).FindSubmatch(data["curve.cert"])
		require.NotNil(t, match, string(data["curve.cert"]))
		return decodeZ85(match[2]), decodeZ85(match[1])
	}
	secret, public := keys()
	key, err := ecdh.X25519().NewPrivateKey(secret)
	require.NoError(t, err)
	assert.Equal(t, key.PublicKey().Bytes(), public)

	another, _ := keys()
	assert.NotEqual(t, secret, another)
}

func decodeZ85(text []byte) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	var out []byte
	for ; len(text) >= 5; text = text[5:] {
		var value uint32
		for _, c := range text[:5] {
			value = value*85 + uint32(strings.IndexByte(digits, c))
		}
		out = binary.BigEndian.AppendUint32(out, value)
	}
	return out
}

func TestWatchesConcernTheOwner(t *testing.T) {
	kinds := map[string]bool{}
	for _, w := range flux.New().Watches() {
		require.IsType(t, &metav1.PartialObjectMetadata{}, w.Object)
		assert.Nil(t, w.Map)
		kinds[w.Object.GetObjectKind().GroupVersionKind().String()] = true
	}
	assert.Equal(t, map[string]bool{"/v1, Kind=ConfigMap": true, "/v1, Kind=Secret": true}, kinds)
}
