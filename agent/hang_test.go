package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
)

// shared is a filesystem that can be made to hang, as one does whose server is away: what
// asks it for something waits, and can only be killed.
type shared struct {
	dir    string
	server *exec.Cmd
}

func newShared(t *testing.T) *shared {
	t.Helper()
	program, err := exec.LookPath("fuse-overlayfs")
	require.NoError(t, err, "install fuse-overlayfs")
	files, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(files, "sub"), 0o777))
	// Without a timeout the kernel would know the answers.
	s := &shared{dir, exec.Command(program, "-f", "-o", "timeout=0,lowerdir="+files, dir)}
	s.server.Stdout, s.server.Stderr = t.Output(), t.Output()
	require.NoError(t, s.server.Start())
	t.Cleanup(func() {
		s.goes()
		_ = exec.Command("fusermount3", "-uz", dir).Run()
	})
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "sub")); return err == nil }, 10*time.Second, 10*time.Millisecond)
	return s
}

func (s *shared) hang(t *testing.T) {
	t.Helper()
	require.NoError(t, s.server.Process.Signal(unix.SIGSTOP))
}

// goes ends it: who waits is told so.
func (s *shared) goes() {
	if s.server.ProcessState == nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
}

// quick is a probe that has a second for each try.
func quick() *corev1.Probe {
	p := everySecond(command("true"))
	p.TimeoutSeconds = 1
	return p
}

// onShared has a pod mount a part of a filesystem.
func onShared(o *spool.PodOrders, s *shared) {
	o.Volumes = []spool.Volume{{Name: "shared", HostPath: s.dir, Host: &spool.Host{Allowed: []spool.AllowedDir{{Path: s.dir}}}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "shared", Path: "/data", SubPath: "sub"}}
}

func TestAFilesystemThatHangsHoldsUpNoStop(t *testing.T) {
	for sentence, test := range map[string]func(t *testing.T, w *world, s *shared, o spool.PodOrders){
		"while probes and sessions are to begin": func(t *testing.T, w *world, s *shared, o spool.PodOrders) {
			o.Containers[0].ReadinessProbe = quick()
			w.run(0, o)
			w.podWhere(0, "ready", func(p spool.PodStatus) bool { return p.Containers[0].Ready })
			client := w.dial(0)
			s.hang(t)
			session := make(chan error, 1)
			go func() {
				_, err := client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"true"}})
				session <- err
			}()
			w.podWhere(0, "not ready", func(p spool.PodStatus) bool { return !p.Containers[0].Ready })
			w.stop(0, o.UID, 5)
			assert.Equal(t, 0, exitCode(t, w.done(0, o.UID)), "it was asked to end, not killed")
			<-session
		},
		"while a container is to start again": func(t *testing.T, w *world, s *shared, o spool.PodOrders) {
			o.RestartPolicy = corev1.RestartPolicyAlways
			o.Containers[0].Argv = []string{"sh", "-c", "echo ready; read line; exit 3"}
			o.Containers[0].Stdin = true
			w.run(0, o)
			w.running(0, o.UID)
			client := w.dial(0)
			s.hang(t)
			require.NoError(t, client.Attach(t.Context(), sshd.AttachRequest{Container: "main", Stdin: strings.NewReader("go\n")}))
			w.podWhere(0, "to start again", func(p spool.PodStatus) bool { return p.Containers[0].LastTerminationState.Terminated != nil })
			w.stop(0, o.UID, 1)
			w.done(0, o.UID)
		},
		"before it has begun": func(t *testing.T, w *world, s *shared, o spool.PodOrders) {
			s.hang(t)
			w.run(0, o)
			w.podWhere(0, "taken", func(p spool.PodStatus) bool { return p.UID == o.UID })
			w.stop(0, o.UID, 1)
			w.done(0, o.UID)
		},
		"while its image is looked at": func(t *testing.T, w *world, s *shared, _ spool.PodOrders) {
			o := w.imageOrders("u", "bubblewrap", filepath.Join(s.dir, "sub"), idle)
			s.hang(t)
			w.run(0, o)
			w.podWhere(0, "taken", func(p spool.PodStatus) bool { return p.UID == o.UID })
			w.stop(0, o.UID, 1)
			w.done(0, o.UID)
		},
		"of a pod beside it when the agent is to end": func(t *testing.T, w *world, s *shared, o spool.PodOrders) {
			o.Containers[0].ReadinessProbe = quick()
			w.run(0, o)
			w.podWhere(0, "ready", func(p spool.PodStatus) bool { return p.Containers[0].Ready })
			w.run(1, w.orders("rider", trapping))
			w.waitLog(1, "rider", "ready")
			s.hang(t)
			w.podWhere(0, "not ready", func(p spool.PodStatus) bool { return !p.Containers[0].Ready })
			require.NoError(t, w.agents[0].Process.Signal(unix.SIGTERM))
			assert.Equal(t, 7, exitCode(t, w.done(1, "rider")))
			assert.Equal(t, 0, exitCode(t, w.done(0, o.UID)))
			s.goes()
			assert.Equal(t, 143, w.agentExit(0))
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, [][]int{{0, 1}})
			w.publishNames()
			s := newShared(t)
			o := w.orders("u", idle)
			onShared(&o, s)
			test(t, w, s, o)
			s.goes()
		})
	}
}
