package agent_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func TestAGangOfTwoSlots(t *testing.T) {
	elsewhere := single(t)
	w := newWorld(t, [][]int{{0}, {1}})
	a := w.agentStatus(1)
	assert.Equal(t, "hpc2", a.Node)
	assert.Equal(t, "127.0.0.1", a.Address)
	assert.Equal(t, "7", a.JobID)
	assert.True(t, a.PrivateRoot, a.PrivateRootError)

	o := w.orders("u0", `env; hostname; cat /etc/mpi/hostfile /secret/deep/key; stat -Lc %a /secret/deep/key
		getent hosts pi-worker-1 | tr -s ' '
		ls -l /run/gangline/bin/ssh | grep -c ' -> '; cat /proc/self/cgroup >/dev/null; echo oops >&2; exit 3`)
	o.Volumes = []spool.Volume{
		{Name: "mpi", Files: []spool.File{{Path: "hostfile", Mode: 0o644, Data: []byte("pi-worker-0 slots=1\n")}}},
		{Name: "secret", Files: []spool.File{{Path: "deep/key", Mode: 0o400, Data: []byte("s3cr3t\n")}}},
	}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "mpi", Path: "/etc/mpi"}, {Volume: "secret", Path: "/secret", ReadOnly: true}}
	o.Containers[0].Env = []corev1.EnvVar{{Name: "GREETING", Value: "bonjour"}, {Name: "GREETING", Value: "hello world"}}
	w.run(0, o)
	other := w.orders("u1", "exit 0")
	other.Hostname = "pi-worker-1"
	w.run(1, other)

	// Nothing starts before all names are known, while a pod of another gang starts and ends.
	isThere := func(spool.PodStatus) bool { return true }
	w.podWhere(0, "known", isThere)
	elsewhere.run(0, elsewhere.orders("elsewhere", "true"))
	elsewhere.done(0, "elsewhere")
	early := w.podWhere(0, "known", isThere)
	require.NotNil(t, early.Containers[0].State.Waiting)
	assert.Equal(t, "ContainerCreating", early.Containers[0].State.Waiting.Reason)
	known := time.Now()
	w.publishNames()

	p := w.done(0, "u0")
	assert.True(t, p.Started.After(known), "started at %s, and the names were known at %s", p.Started, known)
	assert.Equal(t, 3, exitCode(t, p))
	end := p.Containers[0].State.Terminated
	assert.Equal(t, "Error", end.Reason)
	assert.Equal(t, "gangline://u0-main-0", end.ContainerID)
	assert.Equal(t, 0, exitCode(t, w.done(1, "u1")))

	out := w.log(0, "u0", "main", 0, "stdout")
	lines := strings.Split(out, "\n")
	for _, want := range []string{
		"GREETING=hello world", "HOSTNAME=pi-worker-0", "USER=alice", "CUDA_VISIBLE_DEVICES=3",
		"PATH=/run/gangline/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"GANGLINE_DIR=/run/gangline", "GANGLINE_CONTAINER=u0-main-0",
		"pi-worker-0", "pi-worker-0 slots=1", "s3cr3t", "400",
		"127.0.0.1 pi-worker-1 pi-worker-1.pi.default.svc.cluster.local", "1",
	} {
		assert.Contains(t, lines, want)
	}
	for _, unwanted := range []string{"SLURM", "PMI_", "GANGLINE_JOB_ID", "GANGLINE_NODE", "TMPDIR", "GANGLINE_PRIVATE_ROOT"} {
		assert.NotContains(t, out, unwanted)
	}
	assert.Equal(t, "oops\n", w.log(0, "u0", "main", 0, "stderr"))
	assert.NoDirExists(t, filepath.Join(w.memory, "pi-1-0", "u0"))

	// No secret is left anywhere in the spool.
	require.NoError(t, filepath.WalkDir(string(w.dir), func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		if e.Type().IsRegular() && !strings.Contains(path, "/logs/") {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.NotContains(t, string(data), "s3cr3t", path)
			assert.NotContains(t, string(data), "hello world", path)
		}
		return nil
	}))

	w.release()
	assert.Equal(t, 0, w.agentExit(0))
	assert.Equal(t, 0, w.agentExit(1))
	entries, err := os.ReadDir(w.memory)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestPortsToMeetAt(t *testing.T) {
	w := newWorld(t, [][]int{{0}, {1}})
	mine, others := w.agentStatus(0).RendezvousPorts, w.agentStatus(1).RendezvousPorts
	require.Len(t, mine, 4)
	for _, port := range others {
		assert.NotContains(t, mine, port)
	}
	_, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", mine[0]))
	assert.ErrorIs(t, err, unix.EADDRINUSE)
	w.publishNames()
	w.run(0, w.orders("u", fmt.Sprintf(`exec python3 -c 'import socket; socket.create_server(("", %d)); print("bound")'`, mine[0])))
	assert.Equal(t, 0, exitCode(t, w.done(0, "u")), "it is the pod's now")

	// An agent that begins anew has the same ones.
	require.NoError(t, w.agents[0].Process.Kill())
	_ = w.agents[0].Wait()
	before := w.agentStatus(0).Instance
	w.agents[0] = w.startAgent(0)
	require.Eventually(t, func() bool { return w.agentStatus(0).Instance != before }, 20*time.Second, 10*time.Millisecond)
	assert.Equal(t, mine, w.agentStatus(0).RendezvousPorts)
	w.release()
	assert.Equal(t, 0, w.agentExit(0))
}
