package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	utilexec "k8s.io/utils/exec"

	"github.com/gangline/gangline/agent/sshd"
)

// streams carries exec, attach and port-forward to a pod's SSH service. What can be
// known to fail fails before the connection becomes a stream, so that the client
// gets an HTTP status and kubelet's words.
type streams struct {
	pods Pods
}

// exec runs a command in a container that runs.
func (s *streams) exec(w http.ResponseWriter, r *http.Request) error {
	t, err := s.target(r)
	if err != nil {
		return err
	}
	container := r.PathValue("container")
	if !t.runs(container) {
		return failed("container not found (%q)", container)
	}
	client, err := t.dial(r.Context())
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the command's own end is what counts
	serve := api.HandleContainerExec(func(ctx context.Context, _, _, _ string, argv []string, to api.AttachIO) error {
		return runIn(ctx, client, container, argv, to)
	}, api.WithExecStreamIdleTimeout(streamIdleTimeout), api.WithExecStreamCreationTimeout(streamCreationTimeout))
	w, r, done := untilGone(w, r)
	defer done()
	serve(w, r)
	return nil
}

// runIn runs a command. One that ends with a status other than 0 is a
// CodeExitError, which must not be wrapped: the library looks at its type.
func runIn(ctx context.Context, client *sshd.Client, container string, argv []string, to api.AttachIO) error {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	request := sshd.ExecRequest{Container: container, Argv: argv, Stdin: to.Stdin()}
	request.Stdout, request.Stderr = writer(to.Stdout(), gone), writer(to.Stderr(), gone)
	if to.TTY() {
		request.PTY, request.Resize = &sshd.PTY{Term: "xterm"}, sizes(ctx, to.Resize())
	}
	status, err := client.Exec(ctx, request)
	if err != nil {
		return fmt.Errorf("failed to exec in container: %w", err)
	}
	if status != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", status), Code: status}
	}
	return nil
}

// attach joins a client to a container's own process.
func (s *streams) attach(w http.ResponseWriter, r *http.Request) error {
	t, err := s.target(r)
	if err != nil {
		return err
	}
	container := r.PathValue("container")
	if !t.runs(container) {
		return failed("container %s not found in pod %s", container, t.fullName())
	}
	client, err := t.dial(r.Context())
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the process's own end is what counts
	serve := api.HandleContainerAttach(func(ctx context.Context, _, _, _ string, to api.AttachIO) error {
		ctx, gone := context.WithCancel(ctx)
		defer gone()
		return client.Attach(ctx, sshd.AttachRequest{
			Container: container, Stdin: to.Stdin(),
			Stdout: writer(to.Stdout(), gone), Stderr: writer(to.Stderr(), gone),
			Resize: sizes(ctx, to.Resize()),
		})
	}, api.WithExecStreamIdleTimeout(streamIdleTimeout), api.WithExecStreamCreationTimeout(streamCreationTimeout))
	w, r, done := untilGone(w, r)
	defer done()
	serve(w, r)
	return nil
}

// portForward joins streams to ports of the pod, as many as the client opens.
func (s *streams) portForward(w http.ResponseWriter, r *http.Request) error {
	t, err := s.target(r)
	if err != nil {
		return err
	}
	if t.observed == nil {
		return failed("pod not found (%q)", t.fullName())
	}
	client, err := t.dial(r.Context())
	if err != nil {
		return err
	}
	// When the client goes the handler returns, and with the connection end the
	// ports that are still open.
	defer client.Close() //nolint:errcheck // the streams' end is what counts
	serve := api.HandlePortForward(func(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
		return forward(r.Context(), client, port, stream)
	}, api.WithPortForwardStreamIdleTimeout(streamIdleTimeout), api.WithPortForwardCreationTimeout(streamCreationTimeout))
	serve(w, r)
	return nil
}

// forward joins one stream to a port. The end of either direction is passed on by
// itself: a client may have said all and still wait for the answer.
func forward(ctx context.Context, client *sshd.Client, port int32, stream io.ReadWriteCloser) error {
	remote, err := client.Forward(ctx, int(port))
	if err != nil {
		return err
	}
	defer remote.Close() //nolint:errcheck // both directions have ended
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(remote, stream)
		if half, ok := remote.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	both.Go(func() {
		_, _ = io.Copy(stream, remote)
		_ = stream.Close() // of our direction alone, see httpstream.Stream
	})
	both.Wait()
	return nil
}

// writer is a stream that may be missing: a nil one must not become a value that
// looks like a stream. One that cannot be written to says that the client has gone: the
// library tells so only of those that do not come by a WebSocket.
func writer(w io.WriteCloser, gone func()) io.Writer {
	if w == nil {
		return nil
	}
	return watched{w, gone}
}

// watched is a stream whose first error is told.
type watched struct {
	to   io.Writer
	gone func()
}

func (w watched) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err != nil {
		w.gone()
	}
	return n, err
}

// sizes passes the terminal's sizes on until the context ends. No size at all is
// left out: clients may say so once, and the library says so again and again once
// the client has closed its stream of sizes, so the second one in a row ends it.
func sizes(ctx context.Context, from <-chan api.TermSize) <-chan sshd.Size {
	to := make(chan sshd.Size)
	go func() {
		defer close(to)
		nothing := 0
		for nothing < 2 {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-from:
				if !ok || size == (api.TermSize{}) {
					nothing++
					continue
				}
				nothing = 0
				select {
				case to <- sshd.Size{Columns: size.Width, Rows: size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return to
}

// failing is a handler that may return an error before it has answered.
type failing func(http.ResponseWriter, *http.Request) error

// ServeHTTP answers an error as kubelet does: in plain text.
func (f failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f(w, r)
	if err == nil {
		return
	}
	failure, ok := errors.AsType[*httpError](err)
	if !ok {
		failure = &httpError{http.StatusInternalServerError, err.Error()}
	}
	http.Error(w, failure.message, failure.code)
}

// failed is what kubelet answers to a request that it understands and cannot fulfil.
func failed(format string, args ...any) error {
	return &httpError{http.StatusInternalServerError, fmt.Sprintf(format, args...)}
}
