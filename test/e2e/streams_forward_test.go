package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// server is a program that serves a port of its own choice and says which on its
// first line. It answers what it was told, once all is told.
const server = `exec python3 -u -c '
import socket, threading
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1])
def serve(c):
    data = b""
    while True:
        piece = c.recv(1 << 20)
        if not piece: break
        data += piece
    c.sendall(b"got " + data)
    c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
'`

// serving starts the server in a pod and returns its port.
func (w *world) serving(pod string) string {
	w.Helper()
	w.startPod(pod, server)
	var port string
	w.eventually("the server has a port", func(context.Context) (bool, string) {
		log, err := w.kubectl("logs", pod)
		port = strings.TrimSpace(log)
		return port != "", fmt.Sprint(err)
	})
	return port
}

// forwarder is a kubectl port-forward that runs.
type forwarder struct {
	cmd   *exec.Cmd
	port  string // the local one
	words *lockedBuffer
	ended chan error
}

func (w *world) forward(env []string, pod, port string) *forwarder {
	w.Helper()
	f := &forwarder{cmd: w.command(env, "port-forward", "pod/"+pod, ":"+port), words: &lockedBuffer{}, ended: make(chan error, 1)}
	out, err := f.cmd.StdoutPipe()
	require.NoError(w, err)
	f.cmd.Stderr = f.words
	require.NoError(w, f.cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(w, err, f.words.String())
	found := regexp.MustCompile(`127\.0\.0\.1:(\d+) ->`).FindStringSubmatch(line)
	require.Len(w, found, 2, line)
	f.port = found[1]
	go func() {
		_, _ = io.Copy(f.words, lines)
		f.ended <- f.cmd.Wait()
	}()
	w.Cleanup(func() { _ = f.cmd.Process.Kill() })
	return f
}

func (f *forwarder) dial(t require.TestingT) *net.TCPConn {
	conn, err := net.Dial("tcp", "127.0.0.1:"+f.port)
	require.NoError(t, err, "kubectl listens before it says so")
	return conn.(*net.TCPConn)
}

// converse says something, ends its half and reads the answer.
func converse(conn *net.TCPConn, text []byte) ([]byte, error) {
	defer conn.Close() //nolint:errcheck // it was read to its end
	if _, err := conn.Write(text); err != nil {
		return nil, err
	}
	if err := errors.Join(conn.CloseWrite(), conn.SetReadDeadline(time.Now().Add(patience))); err != nil {
		return nil, err
	}
	return io.ReadAll(conn)
}

// answers checks that the server repeats what it is told.
func answers(t assert.TestingT, conn *net.TCPConn, text string) {
	answer, err := converse(conn, []byte(text))
	assert.NoError(t, err)
	assert.Equal(t, "got "+text, string(answer))
}

func forwardBothWays(w *world) {
	port := w.serving("server")
	w.byTransport(func(w *world, _ string, env []string) {
		f := w.forward(env, "server", port)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				text := fmt.Sprintf("hello %d", i)
				answers(w, f.dial(w), text)
			})
		}
		all.Wait()
	})
}

func forwardMuch(w *world) {
	port := w.serving("server")
	data, err := io.ReadAll(pattern(muchData))
	require.NoError(w, err)
	w.byTransport(func(w *world, _ string, env []string) {
		f := w.forward(env, "server", port)
		quiet := f.dial(w)  // one that says nothing holds up nobody
		defer quiet.Close() //nolint:errcheck // as above
		answer, err := converse(f.dial(w), data)
		require.NoError(w, err)
		assert.True(w, bytes.Equal(append([]byte("got "), data...), answer), "%d bytes", len(answer))
		answers(w, quiet, "after")
	})
}

// forwardRefused: the error is the kernel's. kubectl itself then ends.
func forwardRefused(w *world) {
	w.startPod("silent", "sleep 600")
	w.byTransport(func(w *world, _ string, env []string) {
		f := w.forward(env, "silent", "1")
		conn := f.dial(w)
		_, err := io.ReadAll(conn)
		_ = err // how it ends is the client's business
		w.eventually("the error is told", func(context.Context) (bool, string) {
			return strings.Contains(f.words.String(), "connection refused"), f.words.String()
		})
		assert.Contains(w, f.words.String(), "error forwarding port 1 to pod")
	})
	_, err := w.kubectl("port-forward", "nobody", ":1")
	assert.ErrorContains(w, err, `pods "nobody" not found`)
}

// idleStreams: the library's own limit on idle streams is 30 s.
func idleStreams(w *world) {
	const idle = 36 * time.Second
	port := w.serving("server")
	w.startPod("shell", "exec cat", func(pod *corev1.Pod) { pod.Spec.Containers[0].Stdin = true })
	var all sync.WaitGroup
	for transport, env := range transports {
		all.Go(func() {
			out, err := w.command(env, "exec", "shell", "--", "sh", "-c", fmt.Sprintf("sleep %d; echo awake", int(idle.Seconds()))).CombinedOutput()
			assert.NoError(w, err, transport)
			assert.Equal(w, "awake\n", string(out), transport)
		})
		f := w.forward(env, "server", port)
		open := f.dial(w)
		attached := w.command(env, "attach", "-i", "shell")
		keys, err := attached.StdinPipe()
		require.NoError(w, err)
		var shown lockedBuffer
		attached.Stdout, attached.Stderr = &shown, &shown
		require.NoError(w, attached.Start())
		all.Go(func() {
			select {
			case <-time.After(idle):
			case err := <-f.ended:
				assert.Fail(w, "the forward ended", "%s: %v: %s", transport, err, f.words)
				return
			}
			answers(w, open, "late")
			answers(w, f.dial(w), "later")
			_, err := io.WriteString(keys, transport+"\n")
			assert.NoError(w, err)
			w.eventually("who is attached is still heard", func(context.Context) (bool, string) {
				return strings.Contains(shown.String(), transport+"\n"), shown.String()
			})
			_ = attached.Process.Kill()
			_ = attached.Wait()
		})
	}
	all.Wait()
}
