package agent_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/agenttest"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
)

// attach joins a client; it types what is written to keys.
func attachTo(t *testing.T, w *world, container string, out io.Writer) (keys io.WriteCloser, done chan error, leave func()) {
	t.Helper()
	client := w.dial(0)
	r, keys := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- client.Attach(ctx, sshd.AttachRequest{Container: container, Stdin: r, Stdout: out}) }()
	return keys, done, cancel
}

func ended(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		require.Fail(t, "it does not end")
		return nil
	}
}

func TestAttachToAContainerWithInput(t *testing.T) {
	w := single(t)
	o := w.orders("u", "echo ready; cat; echo over; exit 3")
	o.Containers[0].Stdin, o.Containers[0].StdinOnce = true, true
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	var out agenttest.Output
	keys, done, _ := attachTo(t, w, "main", &out)
	_, err := io.WriteString(keys, "to and fro\n")
	require.NoError(t, err)
	out.WaitFor(t, "to and fro\n")
	require.NoError(t, keys.Close())
	require.NoError(t, ended(t, done))
	assert.Equal(t, "to and fro\nover\n", out.String(), "from the attachment on, and to the end")
	assert.Equal(t, 3, exitCode(t, w.done(0, "u")))
	assert.Equal(t, "ready\nto and fro\nover\n", w.log(0, "u", "main", 0, "stdout"))
}

func TestAttachToATerminal(t *testing.T) {
	w := single(t)
	o := w.orders("u", "")
	o.Containers[0].Argv = []string{"sh", "-i"}
	o.Containers[0].Env = []corev1.EnvVar{envVar("PS1", "prompt> ")}
	o.Containers[0].Stdin, o.Containers[0].TTY = true, true
	w.run(0, o)
	w.running(0, "u")
	var first, second agenttest.Output
	keys, done, leave := attachTo(t, w, "main", &first)
	_, err := io.WriteString(keys, "tty; hostname\n")
	require.NoError(t, err)
	first.WaitFor(t, "pi-worker-0\r\nprompt> ")
	assert.Contains(t, first.String(), "/dev/pts/")
	leave()
	require.ErrorIs(t, ended(t, done), context.Canceled)

	keys, done, _ = attachTo(t, w, "main", &second)
	_, err = io.WriteString(keys, "exit 5\n")
	require.NoError(t, err)
	require.NoError(t, ended(t, done), "the client leaves with the container")
	assert.Equal(t, 5, exitCode(t, w.done(0, "u")))
	assert.Contains(t, w.log(0, "u", "main", 0, "stdout"), "exit 5")
}

func TestAttachToNothing(t *testing.T) {
	w := single(t)
	o := w.orders("u", idle)
	o.Containers = append(o.Containers, shell("brief", "exit 0"))
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	for _, name := range []string{"brief", "nobody"} {
		require.Eventually(t, func() bool {
			_, done, leave := attachTo(t, w, name, io.Discard)
			defer leave()
			err := ended(t, done) // nil where it ended while the client was there
			return err != nil && strings.Contains(err.Error(), "does not run")
		}, 10*time.Second, 50*time.Millisecond)
	}
}

func TestAnEphemeralContainer(t *testing.T) {
	w := single(t)
	o := w.orders("u", idle)
	o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/data/deep"}}
	w.run(0, o)
	w.waitLog(0, "u", "ready")
	debugger := shell("debugger", "hostname; touch /data/deep/x; echo $GANGLINE_CONTAINER; read line; echo got $line; sleep 1000")
	debugger.Mounts, debugger.Stdin = o.Containers[0].Mounts, true
	brief := shell("brief", "exit 4")
	w.update(0, o, spool.PodUpdate{UID: "u", EphemeralContainers: []spool.ContainerOrders{debugger, brief}})
	p := w.podWhere(0, "has its ephemeral containers", func(p spool.PodStatus) bool {
		e := p.EphemeralContainers
		return len(e) == 2 && e[0].State.Running != nil && e[1].State.Terminated != nil
	})
	assert.EqualValues(t, 4, p.EphemeralContainers[1].State.Terminated.ExitCode)

	var out agenttest.Output
	keys, done, _ := attachTo(t, w, "debugger", &out)
	_, err := io.WriteString(keys, "this\n")
	require.NoError(t, err)
	out.WaitFor(t, "got this")
	text, _, code, err := run(t, w.dial(0), sshd.ExecRequest{Container: "debugger", Argv: []string{"ls", "/data/deep"}})
	require.NoError(t, err)
	assert.Equal(t, 0, code)
	assert.Equal(t, "x\n", text)

	// A later update without them takes nothing away.
	w.update(0, o, spool.PodUpdate{UID: "u"})
	w.stop(0, "u", 5)
	p = w.done(0, "u")
	require.NoError(t, ended(t, done))
	assert.Equal(t, "pi-worker-0\nu-debugger-0\ngot this\n", w.log(0, "u", "debugger", 0, "stdout"))
	require.Len(t, p.EphemeralContainers, 2)
	require.NotNil(t, p.EphemeralContainers[0].State.Terminated)
	assert.EqualValues(t, 143, p.EphemeralContainers[0].State.Terminated.ExitCode)
}
