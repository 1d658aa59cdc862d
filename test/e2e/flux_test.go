package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestFlux walks the path on Flux: on the double, or on a real instance where
// GANGLINE_E2E_FLUX_URI and GANGLINE_FLUX_LIBRARY say where there is one.
func TestFlux(t *testing.T) {
	t.Parallel()
	env := environment(t, "flux", "flux", 4, nil)
	runAll(t, env, walkingPath())
	one := []struct {
		name string
		run  func(*world)
	}{
		{"a pod waits with Flux's reason, and takes its job along", fluxQueue},
		{"a pod is ended at its time limit", fluxTimeLimit},
		{"a node that starts anew finds its pods again", fluxRestart},
		{"a node killed between submission and record submits nothing twice", fluxSubmitted},
	}
	if env.Flux.Broker != nil {
		one = append(one, struct {
			name string
			run  func(*world)
		}{"while Flux is away nothing changes", fluxOutage})
	}
	for _, test := range one {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func fluxQueue(w *world) {
	var walls []string
	for i := range 4 {
		name := fmt.Sprintf("wall-%d", i)
		walls = append(walls, name)
		w.create(w.makePod(name, "sleep 600", resources("8", "0")))
	}
	for _, name := range walls {
		w.waitPhase(name, corev1.PodRunning)
	}
	w.create(w.makePod("queued", "true", resources("8", "0")))
	queued := w.waitPod("queued", "says why it waits", func(p *corev1.Pod) bool {
		return p.Status.Reason == wellknown.ReasonQueued && containsAll(p.Status.Message, "Flux job", "SCHED", "Resources")
	})
	w.waitJobState(*queued, "SCHED")
	w.must("delete", "pod", "queued")
	w.waitGone("queued")
	w.waitJobState(*queued, "CANCELED")
	w.must(append([]string{"delete", "pod"}, walls...)...)
}

func fluxTimeLimit(w *world) {
	pod := w.makePod("long", `trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.1; done`, resources("1", "0"))
	w.create(w.annotated(pod, map[string]string{wellknown.AnnotationTimeLimit: "6s", wellknown.AnnotationTimeLimitWarning: "0"}))
	ended := w.waitPhase("long", corev1.PodFailed)
	assert.Equal(w, "DeadlineExceeded", ended.Status.Reason, ended.Status.Message)
	assert.Regexp(w, "(?s)^ready\n.*told\n", w.must("logs", "long"), "Flux's SIGALRM asks the agent to end, and the agent the pod")
	w.waitJobState(*ended, "TIMEOUT")
}

func fluxRestart(w *world) {
	marker := filepath.Join(w.env.SharedDir(), "starts-"+w.namespace)
	w.create(w.makePod("steady", "echo started >> "+marker+"; echo before; sleep 6; echo after", resources("1", "0")))
	before := w.waitPhase("steady", corev1.PodRunning)
	w.create(w.makePod("unseen", "sleep 1; exit 4", resources("1", "0")))
	unseen := w.waitPhase("unseen", corev1.PodRunning)
	require.NoError(w, w.env.Node.Kill())
	w.waitAgentDone(*unseen)
	require.NoError(w, w.env.Node.Start(w.Context()))
	after := w.waitPhase("steady", corev1.PodSucceeded)
	assert.Equal(w, before.Annotations[wellknown.AnnotationJobID], after.Annotations[wellknown.AnnotationJobID])
	assert.Equal(w, "before\nafter\n", w.must("logs", "steady"))
	starts, err := os.ReadFile(marker)
	require.NoError(w, err)
	assert.Equal(w, "started\n", string(starts), "it ran once")
	unseen = w.waitPhase("unseen", corev1.PodFailed)
	assert.EqualValues(w, 4, unseen.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	w.waitJobGone(*after, *unseen)
	assert.Len(w, w.jobs(*after), 1)
}

func fluxSubmitted(w *world) {
	another, err := w.env.Another(w.Context(), "flux-crash", func(o *harness.NodeOptions) {
		o.Programs, o.Fault = filepath.Join(root(), "bin", "faults"), faults.Submitted.String()
	})
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, another.Node.Stop()) })
	w = newWorld(w.T, another)
	w.create(makeJobSet("once", w.replicated("worker", "sleep 6", 2, resources("1", "0"))))
	select {
	case <-another.Node.Exited():
	case <-w.Context().Done():
		w.Fatal("the node did not end after the submission")
	}
	require.NoError(w, another.Node.Start(w.Context()))
	pods := w.waitAll("once", corev1.PodRunning, 2)
	w.waitJobSet("once", jobset.JobSetCompleted)
	w.waitJobGone(pods...)
	assert.Len(w, w.jobs(pods...), 1, "the job that was submitted before the crash, and no other")
}

func fluxOutage(w *world) {
	w.create(w.makePod("calm", "sleep 18", resources("1", "0")))
	pod := w.waitPhase("calm", corev1.PodRunning)
	w.env.Flux.Broker.Crash()
	reachable := func(status string) {
		w.eventually("the node says whether Flux answers: "+status, func(context.Context) (bool, string) {
			out, err := w.kubectl("get", "node", w.env.Name, "-o", `jsonpath={.status.conditions[?(@.type=="`+wellknown.ConditionReachable+`")].status}`)
			return err == nil && out == status, out
		})
	}
	reachable("False")
	assert.Equal(w, corev1.PodRunning, w.pod("calm").Status.Phase)
	assert.Equal(w, "True", w.must("get", "node", w.env.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`))
	// A node that starts meanwhile goes on with what it had.
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context()))
	assert.Equal(w, corev1.PodRunning, w.pod("calm").Status.Phase)
	require.NoError(w, w.env.Flux.Broker.Resume())
	reachable("True")
	w.waitPhase("calm", corev1.PodSucceeded)
	w.waitJobGone(*pod)
	w.waitJobState(*pod, "COMPLETED")
}

// TestWithoutFlux runs the built program where Flux's library is not.
func TestWithoutFlux(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp(runDir, "without-flux-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	uid, gid, _, err := slurm.EnsureUser(t.Context(), "hpcuser")
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, uid, gid))
	program := filepath.Join(dir, "gangline-node")
	data, err := os.ReadFile(filepath.Join(root(), "bin", "gangline-node"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, data, 0o755))
	kubeconfig := filepath.Join(dir, "kubeconfig") // nobody is there
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
		contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`), 0o644))
	for name, c := range map[string]struct {
		config, says string
		loads        bool
	}{
		"asked for Flux it says what is missing, and the cure": {
			"workloadManager: flux\nflux: {nodeMemoryMiB: 1024, library: " + dir + "/libflux-core.so.2}\n",
			"there is no Flux on this machine: ", true,
		},
		"not asked for it the library is not looked for": {
			"workloadManager: local\nlocal: {stateDir: " + dir + "/local, nodes: [{name: a, cpus: 1, memoryMiB: 1}]}\n",
			"reading the cluster's identity", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(dir, fmt.Sprintf("%t.yaml", c.loads))
			require.NoError(t, os.WriteFile(config, []byte(`apiVersion: config.gangline.dev/v1alpha1
kind: NodeConfiguration
nodeName: without-flux
spool: `+dir+`/spool
agent: /bin/true
kubelet: {address: 127.0.0.1, certFile: /c, keyFile: /k, clientCAFile: /a}
`+c.config), 0o644))
			cmd := exec.CommandContext(t.Context(), program, "run", "--config", config, "--kubeconfig", kubeconfig)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/", "LD_DEBUG=files"} // the linker says what it loads
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "it must not go on")
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			said := lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "gangline-node: ") })]
			assert.Contains(t, said, c.says)
			if c.loads {
				assert.Contains(t, said, "install flux-core, or name the path of its libflux-core.so.2")
			}
			assert.Equal(t, c.loads, slices.ContainsFunc(lines, func(l string) bool {
				return strings.Contains(l, "libflux") && strings.Contains(l, "dynamically loaded")
			}))
		})
	}
}
