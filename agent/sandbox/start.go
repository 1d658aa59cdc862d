package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
}

// Start returns once the recipe's program runs. A *StartError says why it does
// not. Where the context ends before that, what was started is killed.
func (s Starter) Start(ctx context.Context, r Recipe, files Streams) (*process.Process, error) {
	if err := r.Check(); err != nil {
		return nil, &StartError{Message: err.Error(), Status: 1}
	}
	recipeR, recipeW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	defer recipeW.Close() //nolint:errcheck // a pipe
	answerR, answerW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a process: %w", err), recipeR.Close())
	}
	defer answerR.Close() //nolint:errcheck // a pipe

	spec := process.Spec{
		Path:      selfPath,
		Argv:      []string{initName},
		Files:     []*os.File{files.Stdin, files.Stdout, files.Stderr, recipeR, answerW},
		Terminal:  files.Terminal,
		KillGroup: s.KillGroup,
	}
	if r.KeepExtra = files.Extra != nil; r.KeepExtra {
		spec.Files = append(spec.Files, files.Extra)
	}
	if r.Root != nil {
		spec.Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS
	}
	p, err := s.Table.Start(spec)
	err = errors.Join(err, recipeR.Close(), answerW.Close())
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
	answer, err := io.ReadAll(answerR)
	if err != nil {
		return nil, fmt.Errorf("starting a process: %w", err)
	}
	if len(answer) > 0 {
		<-p.Done()
		return nil, &StartError{Message: string(answer), Status: process.ExitCode(p.Status())}
	}
	if ctx.Err() != nil {
		<-p.Done()
		return nil, fmt.Errorf("starting a process: %w", ctx.Err())
	}
	return p, nil
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
