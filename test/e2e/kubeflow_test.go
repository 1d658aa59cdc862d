package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestKubeflow is what the rest of Kubeflow asks of a TrainJob on the HPC side: its
// Python SDK, Katib and Pipelines. None of them is there: the SDK's calls are
// replayed, and what Katib and Pipelines would run in the cluster runs here.
func TestKubeflow(t *testing.T) {
	t.Parallel()
	env := environment(t, "kubeflow", "local", 2, nil)
	runAll(t, env, map[string]func(*world){
		"the SDK lists runtimes, trains, follows, deletes": sdkTrains,
		"the SDK asks what packages a runtime has":         sdkPackages,
		"a trial of Katib prints its metrics":              katibTrial,
		"a step of a pipeline runs a TrainJob":             pipelineStep,
		"a step of a pipeline fails with its TrainJob":     pipelineStepFails,
		"the first pod of the user guide":                  guidePod,
	}, func(w *world) {
		w.must("annotate", "namespace", w.namespace, wellknown.Cluster+"="+env.Name)
	})
}

// example reads a file of the examples; each document is a tree.
func (w *world) example(path ...string) (text string, documents []map[string]any) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root(), "examples"}, path...)...))
	require.NoError(w, err)
	for _, d := range strings.Split(string(data), "\n---\n") {
		var tree map[string]any
		require.NoError(w, yaml.UnmarshalStrict([]byte(d), &tree), d)
		documents = append(documents, tree)
	}
	return string(data), documents
}

// field follows keys into a tree.
func field(tree any, keys ...string) any {
	for _, k := range keys {
		m, _ := tree.(map[string]any)
		tree = m[k]
	}
	return tree
}

func katibTrial(w *world) {
	text, _ := w.example("katib", "runtime.yaml")
	w.apply(strings.ReplaceAll(text, wellknown.Cluster+": default", wellknown.Cluster+": "+w.env.Name))
	_, documents := w.example("katib", "experiment.yaml")
	template := field(documents[0], "spec", "trialTemplate")
	trial := field(template, "trialSpec").(map[string]any)
	trial["metadata"].(map[string]any)["name"] = "learning-rate-x"
	data, err := yaml.Marshal(trial)
	require.NoError(w, err)
	w.apply(strings.ReplaceAll(string(data), "${trialParameters.learningRate}", `"0.3"`))

	var metrics corev1.Pod
	w.eventually("the pod that prints the metrics is there", func(context.Context) (bool, string) {
		for _, p := range w.jobSetPods("learning-rate-x") {
			if p.Labels[jobset.ReplicatedJobNameKey] == "metrics" {
				metrics = p
				return true, ""
			}
		}
		return false, ""
	})
	for key, value := range field(template, "primaryPodLabels").(map[string]any) {
		assert.Equal(w, value, metrics.Labels[key], "Katib finds the pod by its labels")
	}
	assert.Empty(w, metrics.Spec.NodeSelector, "it stays in the cluster")
	container := metrics.Spec.Containers[0]
	assert.Equal(w, field(template, "primaryContainerName"), container.Name)

	// No node of the test cluster runs containers: what it would run, wrapped by Katib, runs here.
	file := filepath.Join(w.TempDir(), "metrics.log")
	line := strings.Join(append(container.Command, "1>"+file, "2>&1", "&&", "echo completed >", filepath.Join(filepath.Dir(file), "$$.pid")), " ")
	line = strings.ReplaceAll(line, "$(TRIAL)", metrics.Labels[jobset.JobSetNameKey])
	out, err := w.inPod(metrics.Spec.ServiceAccountName, "sh", "-c", line)
	log, _ := os.ReadFile(file)
	require.NoError(w, err, out, string(log))
	found := regexp.MustCompile(`([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)`).FindAllStringSubmatch(string(log), -1) // Katib's filter
	require.Len(w, found, 20, string(log))
	assert.Equal(w, []string{"loss", "0.060281"}, found[19][1:3])
}

// inPod runs a program as a pod of the cluster would, with the rights of a ServiceAccount.
func (w *world) inPod(account string, program ...string) (string, error) {
	w.Helper()
	config, err := clientcmd.LoadFromFile(control.Kubeconfig())
	require.NoError(w, err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &api.AuthInfo{Token: strings.TrimSpace(w.must("create", "token", account))}
	}
	for _, c := range config.Contexts {
		c.Namespace = w.namespace
	}
	file := filepath.Join(w.TempDir(), "kubeconfig")
	require.NoError(w, clientcmd.WriteToFile(*config, file))
	cmd := exec.CommandContext(w.Context(), program[0], program[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file, "PATH="+filepath.Join(root(), "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// step runs the component's container with a TrainJob, and returns what it prints and
// the name that it gives to the next step.
func (w *world) step(manifest string) (log, name string, err error) {
	w.Helper()
	_, documents := w.example("pipelines", "component.yaml")
	container := field(documents[0], "implementation", "container")
	output := filepath.Join(w.TempDir(), "outputs", "name")
	var program []string
	for _, part := range append(field(container, "command").([]any), field(container, "args").([]any)...) {
		switch {
		case field(part, "inputValue") == "trainjob":
			program = append(program, manifest)
		case field(part, "outputPath") == "name":
			program = append(program, output)
		default:
			program = append(program, part.(string))
		}
	}
	w.must("create", "serviceaccount", "pipeline-runner")
	w.must("create", "rolebinding", "pipeline-trains", "--clusterrole=edit", "--serviceaccount="+w.namespace+":pipeline-runner")
	log, err = w.inPod("pipeline-runner", program...)
	data, readErr := os.ReadFile(output)
	require.NoError(w, readErr, log)
	return log, string(data), err
}

// pipelineManifest is the example's TrainJob on this group's cluster.
func (w *world) pipelineManifest() string {
	w.Helper()
	text, _ := w.example("pipelines", "trainjob.yaml")
	return strings.Replace(text, "  annotations:\n", "  annotations:\n    "+wellknown.Cluster+": "+w.env.Name+"\n", 1)
}

func pipelineStep(w *world) {
	log, name, err := w.step(w.pipelineManifest())
	require.NoError(w, err, log)
	assert.Regexp(w, `^step-\w+$`, name)
	w.eachRank(log, `node (\d) of 2 meets at `+name+`-node-0-0`, 2)
}

func pipelineStepFails(w *world) {
	const command = "echo \"node"
	log, _, err := w.step(strings.Replace(w.pipelineManifest(), command, "exit 3; "+command, 1))
	require.Error(w, err, "the step fails too")
	assert.Contains(w, log, "Exit Code:    3")
}

// guidePod runs what docs/guide.md begins with.
func guidePod(w *world) {
	guide, err := os.ReadFile(filepath.Join(root(), "docs", "guide.md"))
	require.NoError(w, err)
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	manifest, _, _ := strings.Cut(rest, "```")
	const anyNode = "{type: virtual-kubelet}"
	require.Contains(w, manifest, anyNode)
	w.apply(strings.Replace(manifest, anyNode, "{"+wellknown.Cluster+": "+w.env.Name+"}", 1))
	w.waitPhase("hello", corev1.PodSucceeded)
	assert.Regexp(w, `^hello\n\S+\n/`, w.must("logs", "hello"))
}
