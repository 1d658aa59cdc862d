package slurm

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// One cluster for all steps: they build on each other, from the first job to the last trace.
func TestAClusterRunsJobsSurvivesACrashAndLeavesNothing(t *testing.T) {
	c := ForTest(t, Config{Nodes: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	node1, node2 := c.Nodes()[0], c.Nodes()[1]

	t.Run("a batch job runs on both nodes as the ordinary user with GPUs of its own", func(t *testing.T) {
		id, err := c.Submit(ctx, "#!/bin/bash\nsrun bash -c 'echo $SLURM_PROCID $(hostname) $(id -un) $CUDA_VISIBLE_DEVICES' | sort\n",
			"--output=job.out", "--nodes=2", "--ntasks=3", "--gpus-per-task=2")
		require.NoError(t, err)
		_, err = c.WaitJob(ctx, id, "COMPLETED")
		require.NoError(t, err)
		out, err := os.ReadFile(filepath.Join(c.SharedDir(), "job.out"))
		require.NoError(t, err)
		user := c.User()
		assert.Equal(t, []string{
			"0 " + node1 + " " + user + " 0,1", "1 " + node1 + " " + user + " 2,3", "2 " + node2 + " " + user + " 0,1",
		}, strings.Split(strings.TrimSpace(string(out)), "\n"))
	})

	t.Run("srun works from outside", func(t *testing.T) {
		out, err := c.Run(ctx, "srun", "-N2", "hostname")
		require.NoError(t, err)
		assert.ElementsMatch(t, c.Nodes(), strings.Fields(out))
	})

	t.Run("nodes are computers of their own", func(t *testing.T) {
		seen := map[string]bool{}
		for _, node := range append(c.Nodes(), Head) {
			out, err := c.Output(ctx, node, "bash", "-c",
				"touch /tmp/x /dev/shm/x; cat /proc/sys/kernel/random/boot_id; hostname; ls /tmp /dev/shm /sys/class/net | tr '\\n' ' '")
			require.NoError(t, err)
			assert.Contains(t, out, node)
			assert.False(t, seen[out], "%s looks like another node", node)
			seen[out] = true
		}
		assert.NoFileExists(t, "/tmp/x")
		out, err := c.Output(ctx, node1, "getent", "hosts", node2)
		require.NoError(t, err)
		assert.Contains(t, out, c.Addr(node2))
	})

	t.Run("exec passes input, output, user and exit code", func(t *testing.T) {
		var out bytes.Buffer
		err := c.Exec(ctx, node1, ExecOptions{User: c.User(), Dir: c.SharedDir(), Stdin: strings.NewReader("in\n"), Stdout: &out},
			"bash", "-c", "cat; id -un; pwd; exit 7")
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		assert.Equal(t, 7, exit.ExitCode())
		assert.Equal(t, "in\n"+c.User()+"\n"+c.SharedDir()+"\n", out.String())
	})

	t.Run("TCP reaches the nodes from outside and outside from the nodes", func(t *testing.T) {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(c.Addr(node2), "6818"), 5*time.Second) // slurmd
		require.NoError(t, err)
		conn.Close()
		server, err := net.Listen("tcp", net.JoinHostPort(c.OutsideAddr(), "0"))
		require.NoError(t, err)
		defer server.Close()
		_, port, err := net.SplitHostPort(server.Addr().String())
		require.NoError(t, err)
		_, err = c.Output(ctx, node1, "bash", "-c", "exec 3<>/dev/tcp/"+c.OutsideAddr()+"/"+port)
		require.NoError(t, err)
	})

	t.Run("an ordinary user has private mounts and names, and proc, in a job", func(t *testing.T) {
		const inner = "mount --bind /etc/hostname /etc/hosts && mount -t tmpfs none /etc && touch /etc/mark && ls /etc && hostname me && hostname"
		out, err := c.Run(ctx, "srun", "-n1", "unshare", "-Urmu", "bash", "-c", inner)
		require.NoError(t, err)
		assert.Equal(t, "mark\nme", out)
		_, err = c.Run(ctx, "srun", "-n1", "unshare", "-Urmpf", "--mount-proc", "true")
		require.NoError(t, err)
	})

	t.Run("slurmctld stops and starts, and knows its jobs", func(t *testing.T) {
		id, err := c.Submit(ctx, "#!/bin/bash\nsleep 300\n", "--output=/dev/null")
		require.NoError(t, err)
		_, err = c.WaitJob(ctx, id, "RUNNING")
		require.NoError(t, err)
		require.NoError(t, c.StopController(ctx))
		st, err := c.Status(ctx)
		require.NoError(t, err)
		assert.Zero(t, st.Controller.PID)
		require.NoError(t, c.StartController(ctx))
		job, err := c.Job(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, "RUNNING", job.State)
		_, err = c.Run(ctx, "scancel", id)
		require.NoError(t, err)
		_, err = c.WaitJob(ctx, id, "CANCELLED")
		require.NoError(t, err)
	})

	t.Run("a crashed node fails its job, and is idle again after a restart", func(t *testing.T) {
		id, err := c.Submit(ctx, "#!/bin/bash\nsleep 300\n", "--output=/dev/null", "--no-requeue", "--nodelist="+node2)
		require.NoError(t, err)
		_, err = c.WaitJob(ctx, id, "RUNNING")
		require.NoError(t, err)
		require.NoError(t, c.Crash(ctx, node2))
		require.Error(t, c.Exec(ctx, node2, ExecOptions{}, "true"))
		_, err = c.WaitJob(ctx, id, "NODE_FAIL")
		require.NoError(t, err)
		require.NoError(t, c.Restart(ctx, node2))
		require.NoError(t, c.WaitNode(ctx, node2, "idle"))
		out, err := c.Run(ctx, "srun", "-w", node2, "hostname")
		require.NoError(t, err)
		assert.Equal(t, node2, out)
	})

	t.Run("stop leaves nothing, and does no harm twice", func(t *testing.T) {
		link := linkWith(t, c.OutsideAddr())
		require.NotEmpty(t, link)
		network := networkOf(t, c, node1)
		require.NotEmpty(t, threadsIn(t, network))
		require.NoError(t, c.Stop(ctx))
		assert.Empty(t, threadsIn(t, network))
		require.NoError(t, c.Stop(ctx))
		assert.Empty(t, tracesOf(t, c.Dir()))
		assert.Empty(t, linkWith(t, c.OutsideAddr()))
		assert.NoDirExists(t, c.Dir())
	})
}

func TestKillingTheSupervisorTakesEverythingDown(t *testing.T) {
	c := ForTest(t, Config{Nodes: 1, REST: true, Accounting: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Submit(ctx, "#!/bin/bash\nsetsid sleep 300 &\nsleep 300\n", "--output=/dev/null")
	require.NoError(t, err)
	st, err := c.Status(ctx)
	require.NoError(t, err)
	network := networkOf(t, c, c.Nodes()[0])
	supervisor, err := os.FindProcess(st.PID)
	require.NoError(t, err)
	require.NoError(t, supervisor.Kill())

	require.Eventually(t, func() bool {
		return len(tracesOf(t, c.Dir())) == 0 && len(threadsIn(t, network)) == 0 && linkWith(t, c.OutsideAddr()) == ""
	}, 10*time.Second, 50*time.Millisecond, "processes or links are left")
	_, err = c.Status(ctx)
	require.ErrorIs(t, err, ErrNotRunning)
	require.NoError(t, c.Stop(ctx))
	assert.NoDirExists(t, c.Dir())
}

func TestAStartThatIsBrokenOffLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	name := "t" + randomHex()
	_, err := Start(ctx, Config{Name: name, Nodes: 1, Progress: writerFunc(func(step string) {
		if strings.Contains(step, "starting slurmd") {
			assert.DirExists(t, Dir(name))
			cancel()
		}
	})})
	require.ErrorIs(t, err, context.Canceled)
	assert.NoDirExists(t, Dir(name))
	assert.Empty(t, tracesOf(t, Dir(name)))
}

func TestFilesOfAKilledProgramsClusterAreRemovedAndNoOthers(t *testing.T) {
	left, runs := ForTest(t, Config{Nodes: 1}), ForTest(t, Config{Nodes: 1})
	require.NoError(t, left.lifeline.Close()) // as the end of this program would
	require.Eventually(t, func() bool {
		err := RemoveLeft()
		_, gone := os.Stat(left.Dir())
		return err == nil && os.IsNotExist(gone)
	}, 20*time.Second, 100*time.Millisecond)
	assert.Empty(t, tracesOf(t, left.Dir()))
	_, err := runs.Status(t.Context())
	require.NoError(t, err)
}

// writerFunc is told what is written.
type writerFunc func(string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestTwoClustersRunSideBySide(t *testing.T) {
	started := make(chan *Cluster, 2)
	for range 2 {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), startWithin)
			defer cancel()
			c, err := Start(ctx, Config{Name: "t" + randomHex(), Nodes: 1, Progress: t.Output()})
			assert.NoError(t, err)
			started <- c
		}()
	}
	var clusters []*Cluster
	for range 2 {
		if c := <-started; c != nil {
			clusters = append(clusters, c)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
				defer cancel()
				assert.NoError(t, c.Stop(ctx))
			})
		}
	}
	require.Len(t, clusters, 2)
	assert.NotEqual(t, clusters[0].OutsideAddr(), clusters[1].OutsideAddr())
	for _, c := range clusters {
		out, err := c.Run(t.Context(), "srun", "hostname")
		require.NoError(t, err)
		assert.Equal(t, c.Nodes()[0], out)
	}
}

// tracesOf lists processes and mounts that mention dir.
func tracesOf(t *testing.T, dir string) []string {
	t.Helper()
	var traces []string
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range append(paths, "/proc/self/mounts") {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // that process has ended
		}
		if bytes.Contains(data, []byte(dir+"/")) || bytes.Contains(data, []byte(dir+"\x00")) {
			traces = append(traces, path+": "+string(data))
		}
	}
	return traces
}

// networkOf names the network namespace of a running node.
func networkOf(t *testing.T, c *Cluster, node string) string {
	t.Helper()
	pid, err := c.machinePID(t.Context(), node)
	require.NoError(t, err)
	name, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", "net"))
	require.NoError(t, err)
	return name
}

// threadsIn lists the threads in a network namespace; one of this program would keep the
// namespace, and its links, alive.
func threadsIn(t *testing.T, network string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/task/*/ns/net")
	require.NoError(t, err)
	var in []string
	for _, path := range all {
		if name, err := os.Readlink(path); err == nil && name == network {
			in = append(in, path)
		}
	}
	return in
}

// linkWith is the network interface that has an address, or "".
func linkWith(t *testing.T, addr string) string {
	t.Helper()
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue // that link has gone
		}
		for _, a := range addrs {
			if strings.HasPrefix(a.String(), addr+"/") {
				return link.Name
			}
		}
	}
	return ""
}
