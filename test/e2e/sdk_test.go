package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// sdk makes the calls of kubeflow/sdk's KubernetesBackend, as a user who may edit
// the namespace and no more.
type sdk struct {
	*world
	http *http.Client
	host string
}

// What kubeflow/sdk has in constants.py.
const (
	trainerAPI = "/apis/trainer.kubeflow.org/v1alpha1"
	execScript = "\nread -r -d '' SCRIPT << EOM\n\n%s\nEOM\nprintf \"%%s\" \"$SCRIPT\" > \"%s\"\n%s \"%[2]s\""
)

func newSDK(w *world) *sdk {
	w.Helper()
	user := "researcher-" + w.namespace
	w.must("create", "rolebinding", "researcher", "--clusterrole=edit", "--user="+user)
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(w, err)
	config.Impersonate.UserName, config.Impersonate.Groups = user, []string{"system:authenticated"}
	client, err := rest.HTTPClientFor(config)
	require.NoError(w, err)
	return &sdk{world: w, http: client, host: config.Host}
}

// call makes a request, and returns the answer's body and status.
func (s *sdk) call(method, path string, body any) (io.ReadCloser, int) {
	s.Helper()
	data, err := json.Marshal(body)
	require.NoError(s, err)
	request, err := http.NewRequestWithContext(s.Context(), method, s.host+path, bytes.NewReader(data))
	require.NoError(s, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.http.Do(request)
	require.NoError(s, err)
	s.Cleanup(func() { _ = answer.Body.Close() })
	return answer.Body, answer.StatusCode
}

// get decodes what is at a path. As a Python model it tolerates no field that the API
// does not have.
func (s *sdk) get(path string, into any) {
	s.Helper()
	body, status := s.call(http.MethodGet, path, nil)
	data, err := io.ReadAll(body)
	require.NoError(s, err)
	require.Equal(s, http.StatusOK, status, "%s: %s", path, data)
	require.NoError(s, yaml.UnmarshalStrict(data, into), path)
}

func (s *sdk) trainJobs() string { return trainerAPI + "/namespaces/" + s.namespace + "/trainjobs" }
func (s *sdk) core() string      { return "/api/v1/namespaces/" + s.namespace }

// runtime is get_runtime: of the namespace, or else of the cluster. It must be what the
// SDK takes for a runtime.
func (s *sdk) runtime(name string) (spec v1alpha1.TrainingRuntimeSpec, trainer corev1.Container) {
	s.Helper()
	_, status := s.call(http.MethodGet, trainerAPI+"/namespaces/"+s.namespace+"/trainingruntimes/"+name, nil)
	require.Equal(s, http.StatusNotFound, status)
	var found v1alpha1.ClusterTrainingRuntime
	s.get(trainerAPI+"/clustertrainingruntimes/"+name, &found)
	return s.usable(found)
}

func (s *sdk) usable(r v1alpha1.ClusterTrainingRuntime) (v1alpha1.TrainingRuntimeSpec, corev1.Container) {
	s.Helper()
	require.Contains(s, r.Labels, "trainer.kubeflow.org/framework", r.Name)
	require.NotNil(s, r.Spec.MLPolicy, r.Name)
	for _, job := range r.Spec.Template.Spec.ReplicatedJobs {
		if _, trains := job.Template.Labels["trainer.kubeflow.org/trainjob-ancestor-step"]; !trains {
			continue
		}
		for _, c := range job.Template.Spec.Template.Spec.Containers {
			if c.Name == "node" && c.Image != "" {
				return r.Spec, c
			}
		}
	}
	require.Fail(s, "no trainer container", r.Name)
	return r.Spec, corev1.Container{}
}

// train is train(): the TrainJob as the SDK writes it.
func (s *sdk) train(name, runtime string, nodes int, resources map[string]any, command []string, env map[string]string) {
	s.Helper()
	var variables []map[string]string
	for k, v := range env {
		variables = append(variables, map[string]string{"name": k, "value": v})
	}
	body, status := s.call(http.MethodPost, s.trainJobs(), map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"runtimeRef": map[string]any{"name": runtime}, "trainer": map[string]any{
			"numNodes": nodes, "command": command, "env": variables,
			"resourcesPerNode": map[string]any{"requests": resources, "limits": resources},
		}},
	})
	answer, err := io.ReadAll(body)
	require.NoError(s, err)
	require.Equal(s, http.StatusCreated, status, string(answer))
}

// job is get_job: the status and the steps, with their pods' names, as the SDK makes
// them of a TrainJob and its pods.
func (s *sdk) job(name string, mpi bool) (status string, steps map[string]corev1.Pod) {
	s.Helper()
	var trainJob v1alpha1.TrainJob
	s.get(s.trainJobs()+"/"+name, &trainJob)
	selector := "jobset.sigs.k8s.io/jobset-name=" + name +
		",jobset.sigs.k8s.io/replicatedjob-name in (dataset-initializer, model-initializer, launcher, node)"
	var pods corev1.PodList
	s.get(s.core()+"/pods?labelSelector="+url.QueryEscape(selector), &pods)
	steps = map[string]corev1.Pod{}
	running := 0
	for _, p := range pods.Items {
		index, err := strconv.Atoi(p.Labels["batch.kubernetes.io/job-completion-index"])
		require.NoError(s, err, p.Name)
		if mpi && p.Labels[jobset.ReplicatedJobNameKey] != "launcher" {
			index++
		}
		require.Equal(s, "node", p.Spec.Containers[0].Name)
		steps[fmt.Sprintf("node-%d", index)] = p
		if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodSucceeded {
			running++
		}
	}
	for _, c := range trainJob.Status.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return c.Type, steps
		}
	}
	if len(trainJob.Status.Conditions) == 0 && running == int(*trainJob.Spec.Trainer.NumNodes) {
		return "Running", steps
	}
	return "Created", steps
}

// wait is wait_for_job_status.
func (s *sdk) wait(name, status string, mpi bool) (steps map[string]corev1.Pod) {
	s.Helper()
	s.eventually("the SDK sees "+status, func(context.Context) (bool, string) {
		var now string
		now, steps = s.job(name, mpi)
		require.False(s, now == "Failed" && status != "Failed", "the TrainJob has failed")
		return now == status, now
	})
	return steps
}

// log is get_job_logs; the stream of a followed log.
func (s *sdk) log(pod string, follow bool) io.Reader {
	s.Helper()
	path := s.core() + "/pods/" + pod + "/log?container=node"
	if follow {
		path += "&follow=True"
	}
	body, status := s.call(http.MethodGet, path, nil)
	require.Equal(s, http.StatusOK, status)
	return body
}

// python is a directory with a file, and with a program "python", which Debian has not.
func (w *world) python() (dir string, env map[string]string) {
	w.Helper()
	dir, err := os.MkdirTemp("", "gangline-sdk.")
	require.NoError(w, err)
	w.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(w, os.Chmod(dir, 0o777))
	require.NoError(w, os.Symlink("/usr/bin/python3", filepath.Join(dir, "python")))
	return dir, map[string]string{"PATH": dir + ":/usr/local/bin:/usr/bin:/bin"}
}

func sdkTrains(w *world) {
	s := newSDK(w)
	var version corev1.ConfigMap
	s.get("/api/v1/namespaces/kubeflow-system/configmaps/kubeflow-trainer-public", &version)
	assert.NotEmpty(w, version.Data["kubeflow_trainer_version"])
	var all v1alpha1.ClusterTrainingRuntimeList
	s.get(trainerAPI+"/clustertrainingruntimes", &all)
	require.NotEmpty(w, all.Items)
	for _, r := range all.Items {
		s.usable(r)
	}
	s.get(trainerAPI+"/namespaces/"+w.namespace+"/trainingruntimes", &v1alpha1.TrainingRuntimeList{})
	spec, _ := s.runtime("torch-distributed")
	require.NotNil(w, spec.MLPolicy.Torch, "its command is torchrun")

	const name = "a0123456789b"
	dir, env := w.python()
	env["PET_REDIRECTS"], env["PET_TEE"] = "2", "2" // Debian's torchrun needs them
	function := fmt.Sprintf(`def train(word):
    import os, time
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], word, flush=True)
    while not os.path.exists(%q):
        time.sleep(0.1)
    print("done", flush=True)

train(**{'word': 'hello'})
`, filepath.Join(dir, "go"))
	s.train(name, "torch-distributed", 2, map[string]any{"cpu": 1},
		[]string{"bash", "-c", fmt.Sprintf(execScript, function, filepath.Join(dir, "train.py"), "torchrun")}, env)
	var list v1alpha1.TrainJobList
	s.get(s.trainJobs(), &list)
	assert.Len(w, list.Items, 1)

	steps := s.wait(name, "Running", false)
	assert.Len(w, steps, 2)
	followed := bufio.NewScanner(s.log(steps["node-0"].Name, true))
	require.True(w, followed.Scan(), "the first line")
	assert.Equal(w, "rank 0 of 2 hello", followed.Text())
	require.NoError(w, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	require.True(w, followed.Scan(), "the next line, as it is written")
	assert.Equal(w, "done", followed.Text())
	assert.False(w, followed.Scan(), "it ends with the container")
	s.wait(name, "Complete", false)
	whole, err := io.ReadAll(s.log(steps["node-1"].Name, false))
	require.NoError(w, err)
	assert.Equal(w, "rank 1 of 2 hello\ndone\n", string(whole))

	var events corev1.EventList
	s.get(s.core()+"/events", &events)
	told := map[string]bool{}
	for _, e := range events.Items {
		told[e.InvolvedObject.Name+" "+e.Reason] = true
	}
	assert.True(w, told[steps["node-0"].Name+" Started"], told)
	_, status := s.call(http.MethodDelete, s.trainJobs()+"/"+name, nil)
	assert.Equal(w, http.StatusOK, status)
	w.eventually("all of it is gone", func(context.Context) (bool, string) {
		pods := w.jobSetPods(name)
		return len(pods) == 0, fmt.Sprint(len(pods))
	})
}

// sdkPackages is get_runtime_packages of an MPI runtime, Kubeflow's own. The user has
// set DEFAULT_MPI_USER_HOME to a directory that the HPC nodes have.
func sdkPackages(w *world) {
	s := newSDK(w)
	spec, _ := s.runtime("deepspeed-distributed")
	require.NotNil(w, spec.MLPolicy.MPI, "its command is mpirun")
	const name = "b0123456789c"
	dir, env := w.python()
	script := fmt.Sprintf(execScript, "import sys\nprint(f'Python: {sys.version}')\n", filepath.Join(dir, "packages.py"), "python")
	s.train(name, "deepspeed-distributed", 1, map[string]any{"cpu": 1}, []string{"mpirun", "-np", "1", "bash", "-c", script}, env)
	steps := s.wait(name, "Complete", true)
	log, err := io.ReadAll(s.log(steps["node-0"].Name, false))
	require.NoError(w, err)
	assert.Contains(w, string(log), "Python: 3.")
}
