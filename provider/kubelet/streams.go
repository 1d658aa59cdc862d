package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	"k8s.io/apimachinery/pkg/types"
	utilexec "k8s.io/utils/exec"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
)

// streams carries exec and port-forward to a pod's SSH service.
type streams struct {
	pods Pods
}

// exec runs a command in a container. A command that ends with a status other
// than 0 is a CodeExitError, which must not be wrapped: the library looks at
// its type.
func (s *streams) exec(ctx context.Context, namespace, pod, container string, argv []string, io api.AttachIO) error {
	client, err := s.dial(ctx, namespace, pod)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the command's own end is what counts
	request := sshd.ExecRequest{Container: container, Argv: argv, Stdin: io.Stdin()}
	// A nil interface must stay nil: a typed nil would look like a stream.
	if w := io.Stdout(); w != nil {
		request.Stdout = w
	}
	if w := io.Stderr(); w != nil {
		request.Stderr = w
	}
	if io.TTY() {
		request.PTY, request.Resize = &sshd.PTY{Term: "xterm"}, sizes(ctx, io.Resize())
	}
	status, err := client.Exec(ctx, request)
	if err != nil {
		return fmt.Errorf("running the command in container %s of pod %s/%s: %w", container, namespace, pod, err)
	}
	if status != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", status), Code: status}
	}
	return nil
}

func sizes(ctx context.Context, from <-chan api.TermSize) <-chan sshd.Size {
	to := make(chan sshd.Size)
	go func() {
		defer close(to)
		for {
			select {
			case <-ctx.Done():
				return
			case size, ok := <-from:
				if !ok {
					return
				}
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

// attach is refused: a container's standard input is not kept open, and its
// output is what kubectl logs -f shows.
func (s *streams) attach(_ context.Context, namespace, pod, _ string, _ api.AttachIO) error {
	return fmt.Errorf("kubectl attach is not supported on this node: use kubectl logs -f -n %s %s for the output, or kubectl exec for a shell", namespace, pod)
}

// portForward joins a stream to a port of the pod.
func (s *streams) portForward(ctx context.Context, namespace, pod string, port int32, stream io.ReadWriteCloser) error {
	client, err := s.dial(ctx, namespace, pod)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the streams' end is what counts
	remote, err := client.Forward(ctx, int(port))
	if err != nil {
		return fmt.Errorf("reaching port %d of pod %s/%s: %w", port, namespace, pod, err)
	}
	go func() {
		// The client may have said all and still wait for the answer.
		_, _ = io.Copy(remote, stream)
		if half, ok := remote.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, remote)
	return errors.Join(ignoreClosed(err), ignoreClosed(remote.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// dial connects to the SSH service of the slot that the pod is in.
func (s *streams) dial(ctx context.Context, namespace, name string) (*sshd.Client, error) {
	pod, err := s.pods.Pod(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	place, ok := s.pods.Place(pod.UID)
	if !ok {
		return nil, fmt.Errorf("pod %s/%s has not started: %s", namespace, name, pod.Status.Message)
	}
	var status spool.Status
	if ok, err := spool.Read(place.Dir.Status(place.Slot), &status); err != nil {
		return nil, err
	} else if !ok || status.Pod == nil || status.Pod.UID != string(pod.UID) || status.Pod.Done {
		return nil, fmt.Errorf("pod %s/%s does not run", namespace, name)
	}
	address := net.JoinHostPort(status.Agent.Address, strconv.Itoa(status.Agent.SSHPort))
	client, err := sshd.Dial(ctx, address, place.Credentials)
	if err != nil {
		return nil, fmt.Errorf("reaching pod %s/%s on %s: %w", namespace, name, status.Agent.Node, err)
	}
	return client, nil
}
