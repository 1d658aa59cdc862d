package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Login is the command of an interactive shell: the user's own, else bash, else sh, which
// every node has. It is a constant, and nothing of a user's is in it.
func Login() []string {
	return []string{"sh", "-c", `for s in "${SHELL:-}" bash; do command -v "$s" >/dev/null 2>&1 && exec "$s"; done; exec sh`}
}

// Session is one command in a container.
type Session struct {
	Namespace, Pod, Container string
	Command                   []string
	// Terminal gives the command a terminal. Stdin and Stdout must be one then.
	Terminal       bool
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs a session until the command ends. An exec.CodeExitError (k8s.io/client-go/util/exec)
// has the command's exit code if that is not 0.
func Run(ctx context.Context, config *rest.Config, s Session) error {
	executor, err := newExecutor(config, s)
	if err != nil {
		return fmt.Errorf("preparing to run a command in pod %s: %w", s.Pod, err)
	}
	o := remotecommand.StreamOptions{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, Tty: s.Terminal}
	if !s.Terminal {
		return executor.StreamWithContext(ctx, o)
	}
	o.Stderr = nil // a terminal has one output
	in, out, ok := terminal(s)
	if !ok {
		return errors.New("a terminal was asked for, and standard input or output is none: leave out --tty")
	}
	was, err := term.MakeRaw(in)
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	defer term.Restore(in, was) //nolint:errcheck // there is nothing else to be done
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.TerminalSizeQueue = newSizes(ctx, out)
	return executor.StreamWithContext(ctx, o)
}

// OnTerminal tells whether both are a terminal.
func OnTerminal(in io.Reader, out io.Writer) bool {
	_, _, ok := terminal(Session{Stdin: in, Stdout: out})
	return ok
}

func terminal(s Session) (in, out int, ok bool) {
	i, isFile := s.Stdin.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	o, isFile := s.Stdout.(*os.File)
	if !isFile {
		return 0, 0, false
	}
	in, out = int(i.Fd()), int(o.Fd())
	return in, out, term.IsTerminal(in) && term.IsTerminal(out)
}

// newExecutor speaks WebSocket, and SPDY where a proxy on the way does not let that through.
func newExecutor(config *rest.Config, s Session) (remotecommand.Executor, error) {
	at, err := address(config, s)
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	if err != nil {
		return nil, err
	}
	websocket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// address is where the command is asked for.
func address(config *rest.Config, s Session) (*url.URL, error) {
	of := rest.CopyConfig(config)
	of.APIPath, of.GroupVersion, of.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(of)
	if err != nil {
		return nil, err
	}
	return client.Post().Namespace(s.Namespace).Resource("pods").Name(s.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: s.Container, Command: s.Command, TTY: s.Terminal,
			Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil && !s.Terminal,
		}, scheme.ParameterCodec).URL(), nil
}
