package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// typist is a kubectl on a terminal, and who sits there.
type typist struct {
	*world
	cmd      *exec.Cmd
	terminal *os.File
	ended    chan error

	mu     sync.Mutex
	screen bytes.Buffer
}

// sitDown starts kubectl on a terminal.
func (w *world) sitDown(env []string, args ...string) *typist {
	w.Helper()
	y := &typist{world: w, cmd: w.command(append([]string{"TERM=xterm"}, env...), args...), ended: make(chan error, 1)}
	var err error
	y.terminal, err = pty.StartWithSize(y.cmd, &pty.Winsize{Cols: 100, Rows: 30})
	require.NoError(w, err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(y, y.terminal) // ends with EIO when kubectl has
	}()
	go func() {
		err := y.cmd.Wait()
		<-read
		y.ended <- err
	}()
	w.Cleanup(func() { _ = y.terminal.Close() })
	return y
}

// Write shows something.
func (y *typist) Write(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.screen.Write(p)
}

func (y *typist) shown() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.screen.String()
}

func (y *typist) types(text string) {
	y.Helper()
	_, err := io.WriteString(y.terminal, text)
	require.NoError(y, err)
}

// sees waits until something is shown.
func (y *typist) sees(text string) {
	y.Helper()
	y.eventually("the terminal shows "+text, func(context.Context) (bool, string) {
		shown := y.shown()
		return strings.Contains(shown, text), shown
	})
}

// exitCode waits for kubectl's end.
func (y *typist) exitCode() int {
	y.Helper()
	select {
	case err := <-y.ended:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		require.NoError(y, err)
		return 0
	case <-time.After(patience):
		require.Fail(y, "kubectl does not end", "%s", y.shown())
		return -1
	}
}

// resize makes the terminal another size.
func (y *typist) resize(columns, rows uint16) {
	y.Helper()
	require.NoError(y, pty.Setsize(y.terminal, &pty.Winsize{Cols: columns, Rows: rows}))
}

func execTerminal(w *world) {
	w.startPod("host", "sleep 600")
	w.byTransport(func(w *world, _ string, env []string) {
		y := w.sitDown(env, "exec", "-it", "host", "--", "sh")
		y.types("echo sum $((40+2)); tty\r")
		y.sees("sum 42\r\n/dev/pts/")
		y.types("until stty size | grep 44; do sleep 0.1; done\r")
		y.resize(111, 44)
		y.sees("44 111\r\n")
		y.types("echo $((1+1)) s; sleep 1000\r")
		y.sees("2 s\r\n")
		y.types("\x03") // Ctrl-C, which throws away what was typed
		y.sees("^C\r\n$ ")
		y.types("echo interrupted $?; exit 5\r")
		y.sees("interrupted 130")
		assert.Equal(w, 5, y.exitCode(), y.shown())
	})
}

func attachTerminal(w *world) {
	w.startPod("shell", "echo started; exec sh", withTerminal)
	w.byTransport(func(w *world, _ string, env []string) {
		y := w.sitDown(env, "attach", "-it", "shell")
		y.types("\rtty; hostname; stty size\r")
		y.sees("/dev/pts/")
		y.sees("shell\r\n")
		y.resize(111, 44)
		y.types("until stty size | grep 44; do sleep 0.1; done\r")
		y.sees("44 111\r\n")
		require.NoError(w, y.cmd.Process.Kill())
		<-y.ended
		assert.NotContains(w, y.shown(), "started", "output from now on")
	})
	// The shell has outlived its clients.
	y := w.sitDown(nil, "attach", "-it", "shell")
	y.types("\rexit 4\r")
	y.exitCode()
	pod := w.waitPhase("shell", corev1.PodFailed)
	assert.EqualValues(w, 4, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	log := w.must("logs", "shell")
	assert.Contains(w, log, "started")
	assert.Contains(w, log, "exit 4", "the log has what was typed, as it was shown")
}

func attachSeveral(w *world) {
	w.startPod("echo", "while read line; do echo got $line; test $line != end || exit 6; done", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Stdin = true
	})
	type client struct {
		cmd   *exec.Cmd
		keys  io.WriteCloser
		shown *lockedBuffer
	}
	var clients []client
	for _, env := range transports {
		c := client{cmd: w.command(env, "attach", "-i", "echo"), shown: &lockedBuffer{}}
		var err error
		c.keys, err = c.cmd.StdinPipe()
		require.NoError(w, err)
		c.cmd.Stdout, c.cmd.Stderr = c.shown, c.shown
		require.NoError(w, c.cmd.Start())
		clients = append(clients, c)
	}
	for i, c := range clients {
		// Until it is attached nothing is heard.
		w.eventually("a client is answered", func(context.Context) (bool, string) {
			_, err := io.WriteString(c.keys, "hello"+string(rune('0'+i))+"\n")
			require.NoError(w, err)
			return strings.Contains(c.shown.String(), "got hello"+string(rune('0'+i))), c.shown.String()
		})
	}
	_, err := io.WriteString(clients[0].keys, "end\n")
	require.NoError(w, err)
	for _, c := range clients {
		assert.NoError(w, c.cmd.Wait())
		assert.Contains(w, c.shown.String(), "got end")
	}
	assert.EqualValues(w, 6, w.waitPhase("echo", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

// lockedBuffer is a buffer that several goroutines may use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func attachElsewhere(w *world) {
	pod := w.makePod("talker", "while sleep 0.2; do echo tick; echo tock >&2; done", resources("500m", "0"))
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name, pod.Spec.Containers[1].Command = "brief", []string{"true"}
	w.create(pod)
	w.waitPod("talker", "has a container that runs and one that has ended", func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) == 2 && c[0].State.Terminated != nil && c[1].State.Running != nil
	})
	w.byTransport(func(w *world, _ string, env []string) {
		cmd := w.command(env, "attach", "-i", "talker", "-c", "main")
		var out, errs lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(w, cmd.Start())
		w.eventually("both streams come", func(context.Context) (bool, string) {
			return strings.Contains(out.String(), "tick") && strings.Contains(errs.String(), "tock"), out.String() + errs.String()
		})
		require.NoError(w, cmd.Process.Kill())
		_ = cmd.Wait()

		said, err := w.command(env, "attach", "talker", "-c", "brief").CombinedOutput()
		require.Error(w, err)
		assert.Contains(w, string(said), "container brief not found in pod talker_"+w.namespace)
	})
}

// overrides place a pod that kubectl run makes.
func (w *world) overrides() string {
	return `{"spec":{"nodeSelector":{"kubernetes.io/hostname":"` + w.env.Name + `"},"tolerations":[{"operator":"Exists"}]}}`
}

func runInteractive(w *world) {
	y := w.sitDown(nil, "run", "-it", "--rm", "box", "--image=busybox", "--restart=Never", "--overrides="+w.overrides(), "--", "sh")
	y.sees("If you don't see a command prompt")
	y.types("\recho sum $((40+2)); hostname\r")
	y.sees("sum 42\r\nbox\r\n")
	y.types("exit 3\r")
	assert.Equal(w, 3, y.exitCode(), y.shown())
	assert.Contains(w, y.shown(), "pod \"box\" deleted")
	w.waitGone("box")
}

func runPiped(w *world) {
	w.byTransport(func(w *world, transport string, env []string) {
		cmd := w.command(env, "run", "-i", "--rm", "pipe-"+strings.ToLower(transport), "--image=busybox", "--restart=Never", "--quiet",
			"--overrides="+w.overrides(), "--command", "--", "sh", "-c", "tr a-z A-Z; echo over")
		cmd.Stdin = strings.NewReader("to and fro\n")
		out, err := cmd.CombinedOutput()
		require.NoError(w, err, string(out))
		assert.Contains(w, string(out), "TO AND FRO\nover\n")
	})
}
