package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles bounds what one call hands over.
	maxFiles = 8
	// maxRequest bounds a request, in bytes: a launch names all hosts of the gang, and
	// the environment and the arguments of its programs. maxSignal bounds a signal.
	maxRequest = 32 << 20
	maxSignal  = 4 << 10
	// queuedSignals is the number of signals that may wait for the Handler.
	queuedSignals = 16
	// acceptRetry is the pause after the listener failed, for instance for want of file
	// descriptors.
	acceptRetry = 100 * time.Millisecond
)

// Caller is who made a call.
type Caller struct {
	// Files were handed over. They are closed when the call has been served.
	Files []*os.File
	// Signals carries names without SIG. It is never closed.
	Signals <-chan string
	// Say tells the user something.
	Say func(string)
}

// Handler grants requests.
type Handler interface {
	// Serve serves one request to its end and returns an exit status, or why
	// there is none. When the context ends, the caller has gone.
	Serve(ctx context.Context, r Request, c Caller) (int, error)
}

// Listen opens the socket of that name.
func Listen(name string) (net.Listener, error) {
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("opening the agent's socket: %w", err)
	}
	return l, nil
}

// Serve serves a listener until the context ends, and returns when all calls
// have been served.
func Serve(ctx context.Context, l net.Listener, h Handler, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accepting at the agent's socket: %w", err)
		}
		if err != nil {
			logger.Warn("accepting at the agent's socket failed", "error", err)
			select {
			case <-time.After(acceptRetry):
			case <-ctx.Done():
			}
			continue
		}
		calls.Go(func() {
			if err := serve(ctx, conn.(*net.UnixConn), h); err != nil { //nolint:forcetypeassert // of a "unix" listener
				logger.Warn("a call at the agent's socket failed", "error", err)
			}
		})
	}
}

func serve(ctx context.Context, conn *net.UnixConn, h Handler) error {
	defer conn.Close() //nolint:errcheck // whoever has gone has gone
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := sameUser(conn); err != nil {
		return err
	}
	files, err := receiveFiles(conn)
	if err != nil {
		return err
	}
	defer closeAll(files)
	in := newMessages(conn)
	var r Request
	if err := in.next(&r, maxRequest); err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	signals := make(chan string, queuedSignals)
	go func() {
		defer cancel() // the caller has gone
		for {
			var m SignalMessage
			if in.next(&m, maxSignal) != nil {
				return
			}
			select {
			case signals <- m.Signal:
			default: // nobody listens
			}
		}
	}()
	out := &answers{encoder: json.NewEncoder(conn)}
	exit, err := h.Serve(ctx, r, Caller{
		Files: files, Signals: signals, Say: func(line string) { out.send(Answer{Say: line}) },
	})
	if err != nil {
		out.send(Answer{Error: err.Error()})
		return nil //nolint:nilerr // the caller's
	}
	out.send(Answer{Exit: &exit})
	return nil
}

// messages reads what a program of the pod's says, within bounds: the decoder keeps all of
// a message until its end has come.
type messages struct {
	conn    io.LimitedReader
	decoder *json.Decoder
}

func newMessages(conn io.Reader) *messages {
	m := &messages{conn: io.LimitedReader{R: conn}}
	m.decoder = json.NewDecoder(&m.conn)
	return m
}

// next reads one message, for which at most so many bytes are taken off the connection.
func (m *messages) next(v any, most int64) error {
	m.conn.N = most
	err := m.decoder.Decode(v)
	if err != nil && m.conn.N <= 0 {
		return fmt.Errorf("a message of more than %d bytes", most)
	}
	return err
}

// answers sends one answer at a time. Whoever has gone gets none.
type answers struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (a *answers) send(answer Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.encoder.Encode(answer)
}

// receiveFiles takes what sendFiles sent.
func receiveFiles(conn *net.UnixConn) ([]*os.File, error) {
	var first [1]byte
	rights := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, _, _, err := conn.ReadMsgUnix(first[:], rights)
	if err != nil || n != 1 {
		return nil, fmt.Errorf("receiving files: %w", errors.Join(err, errorIf(n != 1, "nothing was sent")))
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, fmt.Errorf("receiving files: %w", err)
	}
	var files []*os.File
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("receiving files: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handed over")) //nolint:gosec // a file descriptor
		}
	}
	return files, nil
}

func errorIf(wrong bool, text string) error {
	if !wrong {
		return nil
	}
	return errors.New(text)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// sameUser makes sure that the other side is this user. A user namespace that
// keeps the user's id makes no difference.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("asking who is on the other side: %w", err)
	}
	var peer *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) //nolint:gosec // a file descriptor
	})
	if err = errors.Join(err, credErr); err != nil {
		return fmt.Errorf("asking who is on the other side: %w", err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the other side is user %d and not this one", peer.Uid)
	}
	return nil
}
