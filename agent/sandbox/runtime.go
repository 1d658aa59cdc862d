package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// A process in an image starts in two stages. The first, on the host, enters the private
// root and becomes the container runtime's command; that starts the second, in the
// image, which is this same program and becomes what was asked for. What goes wrong in
// the image is told by the second in its own words, what goes wrong before by the
// runtime on its own stderr.

// passed are the signals that are for the program, not for a runtime that waits for it.
var passed = []os.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGCONT,
	unix.SIGVTALRM, unix.SIGIO, unix.SIGTSTP, unix.SIGXCPU, unix.SIGPWR,
}

// becomeRuntime is the end of the first stage.
func (r Recipe) becomeRuntime(in *os.File, parent int) error {
	by := *r.Runtime
	r.Runtime, r.Root, r.Enter, r.Contained = nil, nil, false, true
	if err := handOn(in, r); err != nil {
		return fmt.Errorf("handing the recipe on: %w", err)
	}
	for fd := answerFD; fd <= stderrFD; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil { //nolint:gosec // a file descriptor
			return fmt.Errorf("keeping an open file: %w", err)
		}
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("entering /: %w", err)
	}
	path, err := lookUp(by.Argv[0], by.Env)
	if err != nil {
		return fmt.Errorf("starting the container runtime: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := dieWithParent(parent); err != nil {
		return err
	}
	if by.Deaf {
		signal.Ignore(passed...)
	}
	if err := unix.Exec(path, by.Argv, by.Env); err != nil {
		return fmt.Errorf("starting the container runtime: exec: %q: %w", by.Argv[0], err)
	}
	return nil
}

// handOn puts the recipe where the second stage reads it, in memory alone.
func handOn(in *os.File, r Recipe) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("recipe", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	memory := os.NewFile(uintptr(fd), "recipe") //nolint:gosec // a file descriptor
	defer memory.Close()                        //nolint:errcheck // it has a duplicate
	if _, err := memory.Write(data); err != nil {
		return err
	}
	if _, err := memory.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	return unix.Dup3(fd, recipeFD, 0)
}

// arrive is the beginning of the second stage.
func (r Recipe) arrive(answer **os.File) error {
	// The runtime has made a namespace for this process: by that its descendants are found
	// whatever they do to their environment.
	namespace, err := os.Open(selfNamespace)
	if err != nil {
		return fmt.Errorf("answering from the image: %w", err)
	}
	// Processes of the runtime may keep what they were handed on. Only this one has the
	// pipe that ends with the exec.
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("answering from the image: %w", err)
	}
	rights := unix.UnixRights(int(ours.Fd()), int(namespace.Fd())) //nolint:gosec // file descriptors
	if err := unix.Sendmsg(answerFD, []byte{0}, rights, nil, 0); err != nil {
		return fmt.Errorf("answering from the image: %w", err)
	}
	*answer = theirs
	for fd, from := range []int{stdinFD, stdoutFD, stderrFD} {
		if err := unix.Dup3(from, fd, 0); err != nil {
			return fmt.Errorf("taking over the process's files: %w", err)
		}
	}
	if r.TakeTerminal {
		if err := unix.IoctlSetInt(unix.Stdin, unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("taking over the terminal: %w", err)
		}
	}
	// What the runtime was deaf to, the program shall hear: exec undoes a handler, but
	// not what is ignored.
	signal.Notify(make(chan os.Signal, 1), passed...)
	return nil
}

const selfNamespace = "/proc/self/ns/mnt"

// mostWords bounds what is kept of a runtime's stderr, in bytes.
const mostWords = 2048

// words are what a runtime says before it has started the program.
type words struct {
	theirs, null *os.File // its own files
	mu           sync.Mutex
	text         bytes.Buffer
	heard        chan struct{} // closed when nobody has the other end any more
}

func hear() (*words, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a process: %w", err), ours.Close(), theirs.Close())
	}
	w := &words{theirs: theirs, null: null, heard: make(chan struct{})}
	go func() {
		defer close(w.heard)
		defer ours.Close() //nolint:errcheck // only read
		_, _ = io.Copy(w, ours)
	}()
	return w, nil
}

// Write keeps the beginning.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := mostWords - w.text.Len(); room > 0 {
		w.text.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// letGo closes our duplicates of the runtime's files.
func (w *words) letGo() {
	if w == nil {
		return
	}
	_ = w.theirs.Close() // twice is once
	_ = w.null.Close()
}

// answerOf waits for the second stage's answer, which is empty if the program runs. An error
// says what has come before it: where it is the runtime's, in the runtime's own words.
func (w *words) answerOf(
	ctx context.Context, p *process.Process, from *net.UnixConn, by *Runtime, told func(*process.Process, *os.File),
) ([]byte, error) {
	waiting := make(chan struct{})
	defer close(waiting)
	go func() {
		select {
		case <-p.Done(): // others of the runtime may have the other end still
			_ = from.SetReadDeadline(time.Now().Add(lateAnswer))
		case <-waiting:
		}
	}()
	answer, arrived, err := receive(from)
	if arrived != nil {
		defer arrived.answer.Close() //nolint:errcheck // only read
		if told != nil {
			told(p, arrived.namespace)
		} else {
			_ = arrived.namespace.Close()
		}
		return io.ReadAll(arrived.answer)
	}
	if len(answer) > 0 {
		return answer, nil // of the first stage
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	<-p.Done()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("starting a process: %w", ctx.Err())
	}
	return nil, &StartError{Message: fmt.Sprintf("the container runtime could not start the container: %s", w.said(p, by)), Status: 1}
}

// lateAnswer is for how long an answer is waited for when the runtime has ended.
const lateAnswer = 500 * time.Millisecond

// arrival is what the second stage hands over: the pipe of its answer, and its mount
// namespace.
type arrival struct{ answer, namespace *os.File }

// receive reads until the second stage has arrived.
func receive(from *net.UnixConn) (answer []byte, arrived *arrival, err error) {
	const files = 2
	text, rights := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4*files))
	for {
		n, m, _, _, err := from.ReadMsgUnix(text, rights)
		if err != nil || n == 0 {
			return answer, nil, err
		}
		if m == 0 {
			answer = append(answer, text[:n]...)
			continue
		}
		messages, err := unix.ParseSocketControlMessage(rights[:m])
		if err != nil || len(messages) != 1 {
			return answer, nil, err
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != files {
			return answer, nil, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		return answer, &arrival{os.NewFile(uintptr(fds[0]), "answer"), os.NewFile(uintptr(fds[1]), selfNamespace)}, nil //nolint:gosec // file descriptors
	}
}

// said is what the runtime has complained of.
func (w *words) said(p *process.Process, by *Runtime) string {
	select {
	case <-w.heard:
	case <-time.After(lateAnswer):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := strings.TrimSpace(w.text.String()); text != "" {
		return text
	}
	return fmt.Sprintf("%s ended with code %d and said nothing", filepath.Base(by.Argv[0]), process.ExitCode(p.Status()))
}
