package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ErrGone says that the agent, or its slot, has ended.
var ErrGone = errors.New("the pod's agent has gone")

// Call is a request with what goes along with it.
type Call struct {
	Request Request
	// Files are handed over: standard input, output, error, and more as the
	// request says.
	Files []*os.File
	// Signals are passed on while the request is served. It may be nil.
	Signals <-chan string
	// Say gets what the agent has to say to the user.
	Say func(string)
}

// Do sends a call to the socket of that name and waits for its end. It returns
// the exit status of what was started, or why nothing was. When the context
// ends, so does what was started.
func Do(ctx context.Context, socket string, c Call) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrGone, err)
	}
	defer conn.Close() //nolint:errcheck // everything was read
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	u := conn.(*net.UnixConn) //nolint:forcetypeassert // of a "unix" address
	if err := sameUser(u); err != nil {
		return 0, fmt.Errorf("asking the pod's agent: %w", err)
	}
	if err := sendFiles(u, c.Files); err != nil {
		return 0, fmt.Errorf("asking the pod's agent: %w", err)
	}
	out := json.NewEncoder(conn)
	if err := out.Encode(c.Request); err != nil {
		return 0, fmt.Errorf("asking the pod's agent: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case name := <-c.Signals:
				if out.Encode(SignalMessage{name}) != nil {
					return
				}
			case <-ended:
				return
			}
		}
	}()
	in := json.NewDecoder(conn)
	for {
		var a Answer
		switch err := in.Decode(&a); {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
			return 0, ErrGone
		case err != nil:
			return 0, fmt.Errorf("reading the agent's answer: %w", err)
		case a.Error != "":
			return 0, errors.New(a.Error)
		case a.Exit != nil:
			return *a.Exit, nil
		case c.Say != nil:
			c.Say(a.Say)
		}
	}
}

// sendFiles hands files over with one byte, which they come with.
func sendFiles(conn *net.UnixConn, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd()) //nolint:gosec // a file descriptor
	}
	_, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
	return err
}
