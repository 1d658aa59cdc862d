package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestRendezvous is about gangs that share their nodes, and so those nodes' ports.
// They fill the nodes, so one case follows the other.
func TestRendezvous(t *testing.T) {
	t.Parallel()
	env := environment(t, "meet", "slurm", 2, nil)
	for name, test := range map[string]func(*world){
		"two PyTorch trainings on the same two nodes":      func(w *world) { meetTwice(w, "torch", "torchrun") },
		"two XGBoost trainings on the same two nodes":      func(w *world) { meetTwice(w, "xgboost", "python3") },
		"two gangs of JAX's kind on the same two nodes":    func(w *world) { meetTwice(w, "jax", "python3") },
		"XGBoost begins anew, at another port":             xgboostRestarted,
		"a gang with nodes of its own has what is written": wholeNodesKeepPorts,
		"a gang of which a part is elsewhere":              partElsewhereKeepsPorts,
	} {
		t.Run(name, func(t *testing.T) { test(newWorld(t, env)) })
	}
}

var metAt = regexp.MustCompile(`rank (\d) of 2 met at (\S+):(\d+): the sum is 3\n`)

// meetTwice has two TrainJobs of Kubeflow's port meet on the same nodes, and again
// after both have met.
func meetTwice(w *world, framework, program string) {
	script := w.share("meet.py")
	dir := filepath.Dir(script)
	torch := ""
	if framework == "torch" {
		torch = "numProcPerNode: 1\n  " + debianTorch
	}
	ports, nodes := map[string]bool{}, map[string]bool{}
	// Two pods of the first fill most of two nodes; what is left of each takes one pod
	// of the second.
	for _, job := range []struct{ name, cpus string }{{"a", "5"}, {"b", "3"}} {
		w.train(job.name, fmt.Sprintf(`
runtimeRef: {name: %[1]s-distributed-hpc}
trainer:
  numNodes: 2
  %[2]s
  resourcesPerNode: {requests: {cpu: "%[3]s", memory: 512Mi}}
  command: [%[4]s, %[5]s, %[1]s, %[6]s]
`, framework, torch, job.cpus, program, script, dir))
		pods := w.waitAll(job.name, corev1.PodRunning, 2)
		met := map[string]bool{}
		for _, p := range pods {
			nodes[p.Status.HostIP] = true
			w.waitLog(p.Name, "met at")
			m := metAt.FindStringSubmatch(w.must("logs", p.Name))
			require.NotNil(w, m, w.must("logs", p.Name))
			met[m[2]+":"+m[3]] = true
			ports[m[3]] = true
		}
		assert.Equal(w, 1, len(met), "one place for all: %v", met)
	}
	assert.Len(w, nodes, 2, "two HPC nodes for both")
	assert.Len(w, ports, 2, "a port for each")
	assert.NotContains(w, ports, "29500")
	require.NoError(w, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	for _, job := range []string{"a", "b"} {
		w.complete(job)
		log := w.jobLogs(job, "node")
		for rank := range 2 {
			assert.Contains(w, log, fmt.Sprintf("rank %d met again: the sum is 3\n", rank))
		}
	}
}

// xgboostRestarted: the second attempt is in the first one's allocation and meets
// elsewhere.
func xgboostRestarted(w *world) {
	script := w.share("meet.py")
	dir := filepath.Dir(script)
	require.NoError(w, os.WriteFile(filepath.Join(dir, "die"), nil, 0o666))
	w.restarting("anew", "xgboost")
	w.train("anew", fmt.Sprintf(`
runtimeRef: {kind: TrainingRuntime, name: anew}
trainer:
  numNodes: 2
  resourcesPerNode: {requests: {cpu: "5", memory: 512Mi}}
  command: [sh, -ec]
  args: ["echo $DMLC_TRACKER_PORT >>%[2]s/ports-$DMLC_TASK_ID; exec python3 %[1]s xgboost %[2]s"]
`, script, dir))
	w.eventually("the second attempt has met", func(context.Context) (bool, string) {
		logs := ""
		for _, p := range w.jobSetPods("anew") {
			log, err := w.kubectl("logs", p.Name)
			if logs += fmt.Sprintln(log, err); err == nil && p.Labels[wellknown.LabelRestartAttempt] == "1" && strings.Contains(log, "met at") {
				return true, ""
			}
		}
		return false, logs
	})
	require.NoError(w, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	w.complete("anew")
	var said []string
	for task := range 2 {
		ports, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("ports-%d", task)))
		require.NoError(w, err)
		said = append(said, string(ports))
	}
	attempts := strings.Fields(said[0])
	require.Len(w, attempts, 2)
	assert.NotEqual(w, attempts[0], attempts[1], "each attempt has its own")
	assert.Equal(w, said[0], said[1], "the same for all pods")
}

// sayMeeting shows a pod's rendezvous as its command has it.
const sayMeeting = `echo "at $MASTER_ADDR:$MASTER_PORT, in the command $(MASTER_PORT)"`

func meetingVariables(host string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "MASTER_ADDR", Value: host}, {Name: "MASTER_PORT", Value: "29500"}}
}

func wholeNodesKeepPorts(w *world) {
	rj := w.replicated("w", sayMeeting, 2, resources("1", "0"))
	rj.Template.Spec.Template.Spec.Containers[0].Env = meetingVariables("own-w-0-0.own")
	js := makeJobSet("own", rj)
	js.Annotations = map[string]string{wellknown.AnnotationNodesExclusive: "true"}
	w.create(js)
	for _, p := range w.waitAll("own", corev1.PodSucceeded, 2) {
		assert.Equal(w, "at own-w-0-0.own:29500, in the command 29500\n", w.must("logs", p.Name))
	}
}

// partElsewhereKeepsPorts: pods on ordinary nodes, of which this cluster has none,
// know the port as it is written.
func partElsewhereKeepsPorts(w *world) {
	here := w.replicated("here", sayMeeting+idleAfter, 1, resources("1", "0"))
	there := w.replicated("there", "true", 1, resources("1", "0"))
	for _, rj := range []*corev1.PodSpec{&here.Template.Spec.Template.Spec, &there.Template.Spec.Template.Spec} {
		rj.Containers[0].Env = meetingVariables("mixed-here-0-0.mixed")
	}
	there.Template.Spec.Template.Spec.NodeSelector = map[string]string{wellknown.Cluster: "elsewhere"}
	w.create(makeJobSet("mixed", here, there))
	var name string
	w.eventually("the pod here runs", func(context.Context) (bool, string) {
		for _, p := range w.jobSetPods("mixed") {
			if strings.HasPrefix(p.Name, "mixed-here-") && p.Status.Phase == corev1.PodRunning {
				name = p.Name
			}
		}
		return name != "", ""
	})
	w.waitLog(name, "at mixed-here-0-0.mixed:29500, in the command 29500\n")
	w.must("delete", "jobset", "mixed")
}

const idleAfter = "; " + idle
