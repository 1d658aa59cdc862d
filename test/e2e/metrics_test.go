package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// TestMetrics measures pods on a real Slurm, and has the real metrics-server make
// kubectl top of it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	env := environment(t, "metrics", "slurm", 2, nil)
	startMetricsServer(t)
	runAll(t, env, map[string]func(*world){
		"kubectl top shows pods and the node":            metricsTop,
		"the numbers are those of the processes":         metricsExact,
		"what has ended counts, and is not shown":        metricsEnded,
		"all containers of a pod are there at its start": metricsAtOnce,
	})
}

// startMetricsServer runs metrics-server with its own rights and no more, as
// people run it: it verifies the node's certificate, and shows its token there.
func startMetricsServer(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, listener.Close())
	manifest, err := os.ReadFile(filepath.Join("testdata", "metrics-server.yaml"))
	require.NoError(t, err)
	apply := strings.ReplaceAll(string(manifest), "PORT", port)
	_, err = control.Kubectl(t.Context(), apply, "apply", "-f", "-")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := control.Kubectl(context.Background(), apply, "delete", "-f", "-", "--wait=false")
		assert.NoError(t, err)
	})
	token, err := control.Kubectl(t.Context(), "", "create", "token", "metrics-server", "-n", "kube-system")
	require.NoError(t, err)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	config, err := clientcmd.LoadFromFile(control.Kubeconfig())
	require.NoError(t, err)
	ca := filepath.Join(dir, "ca.crt")
	for _, user := range config.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, strings.TrimSpace(token)
	}
	for _, cluster := range config.Clusters {
		require.NoError(t, os.WriteFile(ca, cluster.CertificateAuthorityData, 0o644))
	}
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))

	program := filepath.Join(root(), "bin", "metrics-server")
	require.FileExists(t, program, "make metrics-server builds it")
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(program, "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+dir, "--metric-resolution=15s",
		"--kubelet-use-node-status-port", "--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority="+ca)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("end of metrics-server's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
}

// burner burns a processor, holds 200 MiB, and tells what it has used so far.
const burner = `
import time
held = bytearray(200 << 20)
for i in range(0, len(held), 4096): held[i] = 1
while True:
    print(time.process_time(), flush=True)
    until = time.time() + 0.1
    while time.time() < until: pass
`

func (w *world) startBurner(name string) {
	w.Helper()
	pod := w.makePod(name, "", resources("1", "0"))
	pod.Spec.Containers[0].Command = []string{"python3", "-c", burner}
	w.create(pod)
	w.waitPhase(name, corev1.PodRunning)
}

func metricsTop(w *world) {
	w.startBurner("burner")
	w.create(w.makePod("idle", "exec sleep 600", resources("1", "0")))
	w.waitPhase("idle", corev1.PodRunning)
	began := time.Now()
	for _, name := range []string{"burner", "idle"} {
		var cpu, memory int
		w.eventually("kubectl top pod shows "+name, func(context.Context) (bool, string) {
			out, err := w.kubectl("top", "pod", name, "--containers", "--no-headers")
			if err != nil {
				return false, err.Error()
			}
			_, err = fmt.Sscanf(out, name+" main %dm %dMi", &cpu, &memory)
			return err == nil && (name == "idle" || cpu > 0), out
		})
		w.Logf("kubectl top pod after %s: %s %dm %dMi", time.Since(began), name, cpu, memory)
		if name == "burner" {
			assert.LessOrEqual(w, cpu, 1100)
			assert.GreaterOrEqual(w, memory, 200)
			assert.LessOrEqual(w, memory, 260)
		} else {
			assert.Less(w, cpu, 50)
			assert.Less(w, memory, 50)
		}
	}
	var cpu, memory int
	w.eventually("kubectl top node shows the node", func(context.Context) (bool, string) {
		out, err := w.kubectl("top", "node", w.env.Name, "--no-headers")
		if err != nil {
			return false, err.Error()
		}
		var percent string
		_, err = fmt.Sscanf(out, w.env.Name+" %dm %s %dMi", &cpu, &percent, &memory)
		return err == nil && cpu > 0, out
	})
	w.Logf("kubectl top node: %dm %dMi", cpu, memory)
	assert.GreaterOrEqual(w, memory, 200)
	w.must("delete", "pod", "burner", "idle", "--grace-period=1")
}

// families asks the node for its resource metrics.
func (w *world) families() map[string]*dto.MetricFamily {
	w.Helper()
	code, text := w.nodeHTTP().get("/metrics/resource")
	require.Equal(w, 200, code, text)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(w, err)
	for _, name := range []string{"scrape_error", "resource_scrape_error"} {
		assert.Zero(w, families[name].GetMetric()[0].GetGauge().GetValue(), name)
	}
	return families
}

// samples are those of a metric for a pod.
func (w *world) samples(families map[string]*dto.MetricFamily, metric, pod string) []*dto.Metric {
	var found []*dto.Metric
	for _, m := range families[metric].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["namespace"] == w.namespace && labels["pod"] == pod {
			found = append(found, m)
		}
	}
	return found
}

// metricsExact compares the node's numbers with what the process itself says.
func metricsExact(w *world) {
	w.startBurner("burner")
	var last *dto.Metric
	for range 2 {
		w.eventually("another measurement", func(context.Context) (bool, string) {
			found := w.samples(w.families(), "container_cpu_usage_seconds_total", "burner")
			if len(found) == 0 || last != nil && found[0].GetTimestampMs() == last.GetTimestampMs() {
				return false, fmt.Sprint(found)
			}
			last = found[0]
			return true, ""
		})
	}
	assert.Equal(w, []string{"container", "pod", "namespace"},
		[]string{last.Label[0].GetName(), last.Label[1].GetName(), last.Label[2].GetName()}, "virtual-kubelet's tests need this order")
	at := time.UnixMilli(last.GetTimestampMs())
	w.eventually("the process has spoken since", func(context.Context) (bool, string) {
		lines := w.loggedBy("burner", "--tail=1")
		return len(lines) > 0 && lines[0].at.After(at.Add(time.Second)), ""
	})
	before, after := -1.0, -1.0
	for _, l := range w.loggedBy("burner") {
		said, err := strconv.ParseFloat(strings.TrimSpace(l.text), 64)
		require.NoError(w, err)
		if l.at.Before(at) {
			before = said
		} else if after < 0 {
			after = said
		}
	}
	w.Logf("measured %.2f s; the process said %.2f s before and %.2f s after", last.GetCounter().GetValue(), before, after)
	// Times in /proc have a grain of 10 ms each for user and system, and a run's start is the agent's own work.
	assert.GreaterOrEqual(w, last.GetCounter().GetValue(), before-0.05)
	assert.LessOrEqual(w, last.GetCounter().GetValue(), after+0.5)
	w.must("delete", "pod", "burner", "--grace-period=1")
}

// metricsEnded: the node's time never goes back, nor does a pod's whose processes
// come and go; and pods that have ended are not shown.
func metricsEnded(w *world) {
	w.create(w.makePod("spinner", `while :; do sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; done`, resources("1", "0")))
	w.waitPhase("spinner", corev1.PodRunning)
	node := func() float64 {
		return w.families()["node_cpu_usage_seconds_total"].GetMetric()[0].GetCounter().GetValue()
	}
	pod, total, looks := 0.0, 0.0, map[int64]bool{}
	w.eventually("three measurements", func(context.Context) (bool, string) {
		families := w.families()
		found := w.samples(families, "pod_cpu_usage_seconds_total", "spinner")
		if len(found) == 0 {
			return false, ""
		}
		assert.GreaterOrEqual(w, found[0].GetCounter().GetValue(), pod)
		now := node()
		assert.GreaterOrEqual(w, now, total)
		pod, total = found[0].GetCounter().GetValue(), now
		looks[found[0].GetTimestampMs()] = true
		return len(looks) == 3, fmt.Sprint(looks)
	})
	assert.Greater(w, pod, 1.0, "its children's time is the pod's")
	w.must("delete", "pod", "spinner", "--grace-period=1")
	w.waitGone("spinner")
	assert.Empty(w, w.samples(w.families(), "pod_cpu_usage_seconds_total", "spinner"))
	assert.GreaterOrEqual(w, node(), total)
}

// metricsAtOnce: who sees a pod running sees what it uses.
func metricsAtOnce(w *world) {
	pod := w.makePod("three", "sleep 600", resources("1", "0"))
	for _, name := range []string{"b", "c"} {
		more := *pod.Spec.Containers[0].DeepCopy()
		more.Name, more.Resources = name, corev1.ResourceRequirements{}
		pod.Spec.Containers = append(pod.Spec.Containers, more)
	}
	w.create(pod)
	w.waitPod("three", "is ready", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	})
	families := w.families()
	code, text := w.nodeHTTP().get("/stats/summary")
	require.Equal(w, 200, code)
	var summary statsv1alpha1.Summary
	require.NoError(w, json.Unmarshal([]byte(text), &summary))
	assert.Len(w, w.samples(families, "container_cpu_usage_seconds_total", "three"), 3)
	assert.Len(w, w.samples(families, "container_memory_working_set_bytes", "three"), 3)
	assert.Len(w, w.samples(families, "container_start_time_seconds", "three"), 3)
	for _, metric := range []string{"container_cpu_usage_seconds_total", "container_memory_working_set_bytes"} {
		for _, m := range w.samples(families, metric, "three") {
			assert.NotZero(w, m.GetCounter().GetValue()+m.GetGauge().GetValue(), metric)
			assert.InDelta(w, time.Now().UnixMilli(), m.GetTimestampMs(), 60e3, metric)
		}
	}
	assert.Equal(w, w.env.Name, summary.Node.NodeName)
	assert.NotZero(w, *summary.Node.CPU.UsageCoreNanoSeconds)
	assert.NotZero(w, *summary.Node.Memory.WorkingSetBytes)
	found := false
	for _, p := range summary.Pods {
		if p.PodRef.Name == "three" && p.PodRef.Namespace == w.namespace {
			found = true
			assert.Len(w, p.Containers, 3)
			assert.Equal(w, string(w.pod("three").UID), p.PodRef.UID)
		}
	}
	assert.True(w, found, text)
	w.must("delete", "pod", "three", "--grace-period=1")
}
