package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

// fakeNvidia stands for nvidia-smi, which no machine without such devices has. It
// answers as the real one does, and writes down what it was asked.
const fakeNvidia = `#!/bin/sh
# A double of nvidia-smi, for tests.
echo "$*" >"$0.asked"
echo "GPU-0a1b, NVIDIA A100-SXM4-40GB, 35, 1024, 40960"
`

// TestUsage measures a real pod in a real agent: two containers, and a device.
func TestUsage(t *testing.T) {
	programs := t.TempDir()
	nvidia := filepath.Join(programs, "nvidia-smi")
	require.NoError(t, os.WriteFile(nvidia, []byte(fakeNvidia), 0o755))
	w := newWorld(t, [][]int{{0}}, "PATH="+programs+":/usr/bin:/bin")
	w.publishNames()
	o := w.orders("u", `x=$(head -c 20000000 /dev/zero | tr '\0' x); while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done`)
	o.Containers = append(o.Containers, shell("idle", "sleep 600"))
	w.run(0, o)
	w.podWhere(0, "running", func(p spool.PodStatus) bool {
		for _, c := range p.Containers {
			if c.State.Running == nil {
				return false
			}
		}
		return true
	})
	read := func() (spool.Usage, bool) {
		var u spool.Usage
		ok, err := spool.Read(w.dir.Usage(0), &u)
		require.NoError(t, err)
		return u, ok
	}
	require.Eventually(t, func() bool {
		u, ok := read()
		return ok && len(u.Containers) == 2
	}, 5*time.Second, 5*time.Millisecond, "a container is measured as soon as it runs")
	first, _ := read()
	for _, c := range first.Containers {
		assert.NotZero(t, c.CPU, c.Name)
		assert.NotZero(t, c.WorkingSet, c.Name)
	}
	var second spool.Usage
	require.Eventually(t, func() bool {
		second, _ = read()
		return len(second.Devices) > 0
	}, 30*time.Second, 50*time.Millisecond)
	assert.Equal(t, "u", second.PodUID)
	busy, idle := second.Containers[1], second.Containers[0]
	assert.Equal(t, []string{"idle", "main"}, []string{idle.Name, busy.Name})
	assert.Greater(t, busy.CPU, first.Containers[1].CPU, "its children's time is its own")
	assert.NotZero(t, busy.CPURate)
	assert.Greater(t, busy.WorkingSet, uint64(20e6))
	assert.Less(t, idle.WorkingSet, uint64(20e6))
	assert.Less(t, time.Duration(idle.CPU), time.Second)
	assert.Equal(t, []spool.DeviceUsage{{
		Make: "nvidia", Model: "NVIDIA A100-SXM4-40GB", ID: "GPU-0a1b",
		MemoryTotal: 40 << 30, MemoryUsed: 1 << 30, DutyCycle: 35,
	}}, second.Devices)
	asked, err := os.ReadFile(nvidia + ".asked")
	require.NoError(t, err)
	assert.Contains(t, string(asked), "--id=3 ", "its own device, of all that the node has")

	w.stop(0, "u", 1)
	w.done(0, "u")
	ended, _ := read()
	w.release()
	assert.Zero(t, w.agentExit(0))
	last, _ := read()
	assert.Equal(t, ended, last, "nothing is written once the pod has ended")
}

// TestLogsAreBounded has a container write more than its log may hold, and starts
// it again and again.
func TestLogsAreBounded(t *testing.T) {
	w := newWorld(t, [][]int{{0}})
	w.publishNames()
	o := w.orders("l", "seq 1 100000; exit 3")
	o.Logs = spool.LogLimits{MaxBytes: 256 << 10, MaxFiles: 3}
	o.RestartPolicy = corev1.RestartPolicyOnFailure
	o.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	w.run(0, o)
	backedOff := func(run int32) spool.PodStatus {
		return w.podWhere(0, "waiting after a run", func(p spool.PodStatus) bool {
			waiting := p.Containers[0].State.Waiting
			return p.Containers[0].RestartCount == run && waiting != nil && waiting.Reason == "CrashLoopBackOff"
		})
	}
	p := backedOff(1)
	assert.Contains(t, p.Containers[0].LastTerminationState.Terminated.Message, "99999\n100000\n")
	sizes := func() map[string]int64 {
		found := map[string]int64{}
		entries, err := os.ReadDir(filepath.Join(w.dir.PodLogs(0, "l"), "main"))
		require.NoError(t, err)
		for _, e := range entries {
			info, err := e.Info()
			require.NoError(t, err)
			found[e.Name()] = info.Size()
		}
		return found
	}
	got := sizes()
	assert.Len(t, got, 6, "three files of each of two runs")
	for name, size := range got {
		assert.LessOrEqual(t, size, int64(256<<10), name)
	}
	backedOff(2)
	for name := range sizes() {
		assert.NotRegexp(t, `^0\.`, name, "the logs of the run before the last are of no use")
	}
	w.stop(0, "l", 1)
	w.done(0, "l")
	w.release()
	assert.Zero(t, w.agentExit(0))
}
