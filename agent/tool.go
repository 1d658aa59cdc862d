package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/image/tool"
	"github.com/gangline/gangline/agent/process"
)

// quietTool is how long a tool's output may be silent after its end before it is taken to
// be complete.
const quietTool = 500 * time.Millisecond

// runTool runs a program of the HPC node for the agent itself, to its end (a tool.Runner).
// Only the table may wait for children, so it is the table that starts it.
func (s *slot) runTool(ctx context.Context, argv []string, stdin, stdout *os.File) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("starting %s: %w: install it on the HPC nodes, or name its file (containers.runtimes)", argv[0], err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	defer null.Close() //nolint:errcheck // nothing was written
	out, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], err)
	}
	p, err := s.table.Start(process.Spec{Path: path, Argv: argv, Env: os.Environ(), Files: []*os.File{cmp.Or(stdin, null), cmp.Or(stdout, theirs), theirs}, KillGroup: true})
	if err = errors.Join(err, theirs.Close()); err != nil {
		return fmt.Errorf("starting %s: %w", argv[0], errors.Join(err, out.Close()))
	}
	defer context.AfterFunc(ctx, func() { _ = p.Signal(unix.SIGKILL) })()
	said := &tool.LastWords{}
	if err := process.CopyOutput(said, out, p.Done(), quietTool); err != nil {
		s.logger.Warn("reading a tool's output", "tool", argv[0], "error", err)
	}
	<-p.Done()
	switch code := process.ExitCode(p.Status()); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case code != 0:
		return fmt.Errorf("%s ended with code %d: %s", argv[0], code, said)
	}
	return nil
}
