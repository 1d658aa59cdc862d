package agent_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/spool"
)

// dial connects to a slot's SSH service as the node does.
func (w *world) dial(k int) *sshd.Client {
	w.t.Helper()
	a := w.agentStatus(k)
	client, err := sshd.Dial(w.t.Context(), net.JoinHostPort(a.Address, strconv.Itoa(a.SSHPort)), sshd.Credentials{
		HostPublicKey: w.keys.HostPublic, ClientKey: w.keys.ClientPrivate,
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

func run(t *testing.T, c *sshd.Client, r sshd.ExecRequest) (stdout, stderr string, code int, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	r.Stdout, r.Stderr = &out, &errs
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code, err = c.Exec(ctx, r)
	return out.String(), errs.String(), code, err
}

const idle = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"

func TestSessions(t *testing.T) {
	w := single(t)
	o := w.orders("u", idle)
	o.Containers = append(o.Containers, shell("second", "exit 0"))
	o.Containers[0].Env = []corev1.EnvVar{envVar("A", "main")}
	o.Containers[1].Env = []corev1.EnvVar{envVar("A", "second")}
	o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/data/deep"}}
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	client := w.dial(0)

	for sentence, test := range map[string]func(t *testing.T){
		"a command has the container's environment, host name and files": func(t *testing.T) {
			out, errs, code, err := run(t, client, sshd.ExecRequest{Argv: []string{"sh", "-c",
				"echo $A; hostname; touch /data/deep/x; ls /data/deep; echo $GANGLINE_CONTAINER; pwd; echo err >&2; exit 4"}})
			require.NoError(t, err)
			assert.Equal(t, 4, code)
			assert.Equal(t, "main\npi-worker-0\nx\nu-main-0\n/\n", out)
			assert.Equal(t, "err\n", errs)
		},
		"a command in another container": func(t *testing.T) {
			out, _, _, err := run(t, client, sshd.ExecRequest{Container: "second", Argv: []string{"sh", "-c", "echo $A; test -e /data && echo there"}})
			require.NoError(t, err)
			assert.Equal(t, "second\n", out)
		},
		"a container that the pod does not have": func(t *testing.T) {
			_, _, _, err := run(t, client, sshd.ExecRequest{Container: "third", Argv: []string{"true"}})
			require.ErrorContains(t, err, `the pod has no container "third"`)
		},
		"a program that does not exist": func(t *testing.T) {
			_, _, _, err := run(t, client, sshd.ExecRequest{Argv: []string{"foo"}})
			require.ErrorContains(t, err, `exec: "foo": executable file not found in $PATH`)
		},
		"input reaches the command, and its end too": func(t *testing.T) {
			data := strings.Repeat("0123456789abcdef", 1<<16)
			out, _, code, err := run(t, client, sshd.ExecRequest{Argv: []string{"cat"}, Stdin: strings.NewReader(data)})
			require.NoError(t, err)
			assert.Equal(t, 0, code)
			assert.True(t, data == out, "%d bytes of %d", len(out), len(data))
		},
		"a command that a signal ends": func(t *testing.T) {
			_, _, code, err := run(t, client, sshd.ExecRequest{Argv: []string{"sh", "-c", "kill -KILL $$"}})
			require.NoError(t, err)
			assert.Equal(t, 137, code)
		},
		"a terminal": func(t *testing.T) {
			out, _, code, err := run(t, client, sshd.ExecRequest{
				Argv: []string{"sh", "-c", "test -t 0 && tty && stty size && echo $TERM && test -c $(tty)"},
				PTY:  &sshd.PTY{Term: "xterm", Size: sshd.Size{Columns: 100, Rows: 30}},
			})
			require.NoError(t, err)
			assert.Equal(t, 0, code, out)
			assert.Regexp(t, `^/dev/\S+\r\n30 100\r\nxterm\r\n$`, out)
		},
		"typing into a terminal": func(t *testing.T) {
			keys, typed := io.Pipe()
			go func() {
				time.Sleep(300 * time.Millisecond) // a person is slow
				_, _ = typed.Write([]byte("hello\n\x04"))
			}()
			out, _, code, err := run(t, client, sshd.ExecRequest{
				Argv: []string{"sh", "-c", "stty -echo; cat"}, Stdin: keys,
				PTY: &sshd.PTY{Term: "xterm", Size: sshd.Size{Columns: 80, Rows: 24}},
			})
			require.NoError(t, err)
			assert.Equal(t, 0, code)
			assert.Contains(t, out, "hello\r\n")
		},
		"a login shell begins at home": func(t *testing.T) {
			var out bytes.Buffer
			code, err := client.Run(t.Context(), sshclient.Session{
				Request: "shell", Stdin: strings.NewReader("echo $0 $HOME; pwd; exit 3\n"), Stdout: &out,
			})
			require.NoError(t, err)
			assert.Equal(t, 3, code)
			lines := strings.Fields(out.String())
			require.Len(t, lines, 3, out.String())
			assert.True(t, strings.HasPrefix(lines[0], "-"), lines[0])
			assert.Equal(t, lines[1], lines[2])
		},
		"a new size of the terminal": func(t *testing.T) {
			resize := make(chan sshd.Size, 1)
			resize <- sshd.Size{Columns: 50, Rows: 20}
			out, _, _, err := run(t, client, sshd.ExecRequest{
				Argv: []string{"sh", "-c", "until stty size | grep 20; do sleep 0.05; done"},
				PTY:  &sshd.PTY{Term: "xterm", Size: sshd.Size{Columns: 100, Rows: 30}}, Resize: resize,
			})
			require.NoError(t, err)
			assert.Equal(t, "20 50\r\n", out)
		},
		"what a command leaves in the background goes on": func(t *testing.T) {
			began := time.Now()
			out, _, code, err := run(t, client, sshd.ExecRequest{Argv: []string{"sh", "-c", "setsid sleep 1000 & echo $!"}})
			require.NoError(t, err)
			assert.Equal(t, 0, code)
			assert.Less(t, time.Since(began), 10*time.Second)
			pid, err := strconv.Atoi(strings.TrimSpace(out))
			require.NoError(t, err)
			assert.NoError(t, unix.Kill(pid, unix.SIGKILL))
		},
		"a client that goes takes its command with it": func(t *testing.T) {
			other := w.dial(0)
			r, pw, err := os.Pipe()
			require.NoError(t, err)
			go func() {
				_, _ = other.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"sh", "-c", "echo $$; exec sleep 1000"}, Stdout: pw})
			}()
			buf := make([]byte, 32)
			n, err := r.Read(buf)
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
			require.NoError(t, err)
			require.NoError(t, other.Close())
			require.Eventually(t, func() bool { return unix.Kill(pid, 0) != nil }, 10*time.Second, 5*time.Millisecond)
		},
		"a client that goes takes the whole group with it": func(t *testing.T) {
			other := w.dial(0)
			r, pw, err := os.Pipe()
			require.NoError(t, err)
			go func() {
				_, _ = other.Exec(t.Context(), sshd.ExecRequest{
					Argv: []string{"sh", "-c", "(trap '' TERM; exec sleep 1000) & sleep 0.2; echo $!; wait"}, Stdout: pw})
			}()
			pid := make([]byte, 32)
			n, err := r.Read(pid)
			require.NoError(t, err)
			number, err := strconv.Atoi(strings.TrimSpace(string(pid[:n])))
			require.NoError(t, err)
			require.NoError(t, other.Close())
			require.Eventually(t, func() bool { return unix.Kill(number, 0) != nil }, 10*time.Second, 5*time.Millisecond)
		},
		"fifty sessions at once": func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					out, _, code, err := run(t, client, sshd.ExecRequest{Argv: []string{"echo", strconv.Itoa(i)}})
					assert.NoError(t, err)
					assert.Equal(t, 0, code)
					assert.Equal(t, strconv.Itoa(i)+"\n", out)
				})
			}
			all.Wait()
		},
	} {
		t.Run(sentence, test)
	}

	// The pod's end is the sessions' end.
	ended := make(chan int, 1)
	go func() {
		code, _ := client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"setsid", "sleep", "1000"}})
		ended <- code
	}()
	w.stop(0, "u", 5)
	w.done(0, "u")
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("a session outlives its pod")
	}
	_, _, _, err := run(t, client, sshd.ExecRequest{Argv: []string{"true"}})
	require.ErrorContains(t, err, "the pod has ended")
}

func TestASessionWaitsForItsPod(t *testing.T) {
	w := newWorld(t, [][]int{{0}})
	w.run(0, w.orders("u", idle))
	client := w.dial(0)
	done := make(chan string, 1)
	go func() {
		out, _, _, _ := run(t, client, sshd.ExecRequest{Argv: []string{"hostname"}})
		done <- out
	}()
	select {
	case out := <-done:
		t.Fatalf("the session did not wait: %q", out)
	case <-time.After(300 * time.Millisecond):
	}
	w.publishNames()
	assert.Equal(t, "pi-worker-0\n", <-done)
}

// A session that names no container is for the pod as a whole: its containers are to
// have been started. One that names an init container is for that one.
func TestASessionWaitsForThePodsContainers(t *testing.T) {
	w := single(t)
	o := w.orders("u", idle)
	o.InitContainers = []spool.ContainerOrders{shell("init", "echo begun; trap 'exit 0' USR1; while :; do sleep 0.05; done")}
	w.run(0, o)
	w.podWhere(0, "has an init container that runs", func(p spool.PodStatus) bool {
		return len(p.InitContainers) == 1 && p.InitContainers[0].State.Running != nil
	})
	client := w.dial(0)
	done := make(chan string, 1)
	go func() {
		out, _, _, _ := run(t, client, sshd.ExecRequest{Argv: []string{"hostname"}})
		done <- out
	}()
	out, _, _, err := run(t, client, sshd.ExecRequest{Container: "init", Argv: []string{"sh", "-c", "echo $GANGLINE_CONTAINER; kill -USR1 $(pgrep -f 'echo begun')"}})
	require.NoError(t, err)
	assert.Equal(t, "u-init-0\n", out)
	assert.Equal(t, "pi-worker-0\n", <-done)
}

// twoWorkers runs a script in slot 0's pod beside an idle worker in slot 1.
func twoWorkers(t *testing.T, script string, change func(*spool.PodOrders)) (*world, spool.PodStatus) {
	t.Helper()
	w := newWorld(t, [][]int{{0}, {1}})
	w.publishNames()
	worker := w.orders("w", idle)
	worker.Hostname = "pi-worker-1"
	w.run(1, worker)
	o := w.orders("l", script)
	if change != nil {
		change(&o)
	}
	w.run(0, o)
	return w, w.done(0, "l")
}

func TestPodsReachEachOtherBySSH(t *testing.T) {
	w, p := twoWorkers(t, `ssh pi-worker-1 'hostname; echo "$GANGLINE_CONTAINER"; exit 3'; echo $?
		echo data | ssh -q pi-worker-1.pi.default.svc.cluster.local cat
		ssh -o StrictHostKeyChecking=no alice@pi-worker-0 hostname`, nil)
	assert.Equal(t, 0, exitCode(t, p), w.log(0, "l", "main", 0, "stderr"))
	assert.Equal(t, "pi-worker-1\nw-main-0\n3\ndata\npi-worker-0\n", w.log(0, "l", "main", 0, "stdout"))
}

func TestMpirunStartsRanksInBothPods(t *testing.T) {
	_, err := exec.LookPath("mpirun")
	require.NoError(t, err, "the test needs Open MPI")
	w, p := twoWorkers(t, "mpirun --map-by node -np 4 sh -c 'echo $(hostname) $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE' | sort", func(o *spool.PodOrders) {
		o.Volumes = []spool.Volume{{Name: "mpi", Files: []spool.File{
			{Path: "hostfile", Mode: 0o644, Data: []byte("pi-worker-0 slots=2\npi-worker-1 slots=2\n")}}}}
		o.Containers[0].Mounts = []spool.Mount{{Volume: "mpi", Path: "/etc/mpi"}}
		o.Containers[0].Env = []corev1.EnvVar{envVar("OMPI_ALLOW_RUN_AS_ROOT", "1"), envVar("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")}
		for _, v := range mpi.Env(mpi.Paths{RemoteShell: "/run/gangline/bin/ssh", Hostfile: "/etc/mpi/hostfile"}) {
			o.Containers[0].Env = append(o.Containers[0].Env, envVar(v.Name, v.Value))
		}
	})
	assert.Equal(t, 0, exitCode(t, p), w.log(0, "l", "main", 0, "stderr"))
	assert.Equal(t, "pi-worker-0 0 of 4\npi-worker-0 2 of 4\npi-worker-1 1 of 4\npi-worker-1 3 of 4\n",
		w.log(0, "l", "main", 0, "stdout"), w.log(0, "l", "main", 0, "stderr"))
}

func TestMPICHStartsRanksWithTheirOwnPodsEnvironment(t *testing.T) {
	_, err := exec.LookPath("mpiexec.mpich")
	require.NoError(t, err, "the test needs MPICH")
	w, p := twoWorkers(t, "mpiexec.mpich -iface lo -n 2 sh -c 'echo $(hostname) $PMI_RANK $GANGLINE_CONTAINER ${COLOUR-none} $CUDA_VISIBLE_DEVICES' | sort", func(o *spool.PodOrders) {
		o.Volumes = []spool.Volume{{Name: "mpi", Files: []spool.File{
			{Path: "hydra", Mode: 0o644, Data: []byte("pi-worker-0:1\npi-worker-1:1\n")}}}}
		o.Containers[0].Mounts = []spool.Mount{{Volume: "mpi", Path: "/etc/mpi"}}
		o.Containers[0].Env = []corev1.EnvVar{envVar("COLOUR", "blue")}
		for _, v := range mpi.Env(mpi.Paths{RemoteShell: "/run/gangline/bin/ssh", HydraHostfile: "/etc/mpi/hydra"}) {
			o.Containers[0].Env = append(o.Containers[0].Env, envVar(v.Name, v.Value))
		}
	})
	assert.Equal(t, 0, exitCode(t, p), w.log(0, "l", "main", 0, "stderr"))
	assert.Equal(t, "pi-worker-0 0 l-main-0 blue 3\npi-worker-1 1 w-main-0 none 3\n", w.log(0, "l", "main", 0, "stdout"))
}
