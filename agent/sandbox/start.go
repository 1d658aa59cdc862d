package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// Streams are a process's first three files. It gets duplicates.
type Streams struct {
	Stdin, Stdout, Stderr *os.File
	// Extra is a fourth file, which the program finds as ExtraFD; nil for none.
	Extra *os.File
	// Terminal makes Stdin the controlling terminal.
	Terminal bool
}

// Starter starts processes.
type Starter struct {
	Table *process.Table
	// KillGroup: see process.Spec.
	KillGroup bool
	// Started is told of a process before it becomes the recipe's program; it
	// is in its own namespaces then.
	Started func(*process.Process)
	// Arrived is told of the mount namespace that a container runtime has made for a
	// process, before it becomes the recipe's program. The file is Arrived's to close.
	Arrived func(*process.Process, *os.File)
}

// Start returns once the recipe's program runs. A *StartError says why it does
// not. Where the context ends before that, what was started is killed.
func (s Starter) Start(ctx context.Context, r Recipe, files Streams) (*process.Process, error) {
	if err := r.Check(); err != nil {
		return nil, &StartError{Message: err.Error(), Status: 1}
	}
	var mount, uts *os.File
	if r.Enter = r.Place != nil; r.Enter {
		var err error
		if mount, uts, err = r.Place.open(ctx, s); err != nil {
			return nil, err
		}
		defer mount.Close() //nolint:errcheck // only handles
		defer uts.Close()   //nolint:errcheck // as above
	}
	recipeR, recipeW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	defer recipeW.Close() //nolint:errcheck // a pipe
	answerR, answerW, err := answerPair(r.Runtime != nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a process: %w", err), recipeR.Close())
	}
	defer answerR.Close() //nolint:errcheck // a pipe

	spec := process.Spec{
		Path:      selfPath,
		Argv:      []string{initName},
		Files:     []*os.File{files.Stdin, files.Stdout, files.Stderr, recipeR, answerW, files.Extra},
		Terminal:  files.Terminal,
		KillGroup: s.KillGroup,
	}
	r.KeepExtra = files.Extra != nil
	if r.Root != nil {
		spec.Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	}
	var words *words
	if r.Runtime != nil {
		if words, err = hear(); err != nil {
			return nil, errors.Join(err, recipeR.Close(), answerW.Close())
		}
		defer words.letGo()
		spec.Files[unix.Stdin], spec.Files[unix.Stdout], spec.Files[unix.Stderr] = words.null, words.theirs, words.theirs
		if files.Extra == nil {
			spec.Files[ExtraFD] = words.null // some runtimes hand on a range without a gap
		}
		spec.Files = append(spec.Files, files.Stdin, files.Stdout, files.Stderr)
		r.TakeTerminal = files.Terminal && r.Runtime.OwnSession
		spec.Terminal, spec.TerminalFD = files.Terminal && !r.Runtime.OwnSession, stdinFD
	}
	if r.Enter {
		spec.Files = append(spec.Files, make([]*os.File, mountFD-len(spec.Files))...)
		spec.Files = append(spec.Files, mount, uts)
	}
	p, err := s.Table.Start(spec)
	err = errors.Join(err, recipeR.Close(), answerW.Close())
	words.letGo()
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })()

	if s.Started != nil {
		s.Started(p)
	}
	// When the stage ends early this fails, and the answer says why.
	_ = json.NewEncoder(recipeW).Encode(r)
	_ = recipeW.Close()
	answer, err := s.answer(ctx, p, answerR, words, r.Runtime)
	if err != nil {
		return nil, err
	}
	if len(answer) > 0 {
		<-p.Done()
		return nil, &StartError{Message: string(answer), Status: process.ExitCode(p.Status())}
	}
	if ctx.Err() != nil {
		<-p.Done()
		return nil, fmt.Errorf("starting a process: %w", context.Cause(ctx))
	}
	return p, nil
}

// answerPair is how the stages tell what went wrong: a pipe or, where a container runtime
// is between them, a socket.
func answerPair(socket bool) (ours, theirs *os.File, err error) {
	if !socket {
		return os.Pipe()
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "answer"), os.NewFile(uintptr(pair[1]), "answer"), nil //nolint:gosec // file descriptors
}

// answer is what went wrong in the process's stages; empty if its program runs.
func (s Starter) answer(ctx context.Context, p *process.Process, from *os.File, words *words, by *Runtime) ([]byte, error) {
	if by == nil {
		answer, err := io.ReadAll(from)
		if err != nil {
			return nil, fmt.Errorf("starting a process: %w", err)
		}
		return answer, nil
	}
	conn, err := net.FileConn(from)
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	defer conn.Close() //nolint:errcheck // only read
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("starting a process: the answer does not come by a socket")
	}
	return words.answerOf(ctx, p, socket, by, s.Arrived)
}

// Build builds a root and ends: it tells whether the kernel lets us.
func (s Starter) Build(ctx context.Context, r *Root) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("building a private root: %w", err)
	}
	defer null.Close() //nolint:errcheck // nothing was written
	p, err := s.Start(ctx, Recipe{Root: r}, Streams{Stdin: null, Stdout: null, Stderr: null})
	if err != nil {
		return fmt.Errorf("building a private root: %w", err)
	}
	<-p.Done()
	if code := process.ExitCode(p.Status()); code != 0 {
		return fmt.Errorf("building a private root: it ended with code %d", code)
	}
	return nil
}
