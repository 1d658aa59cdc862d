package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// outputGrace is how long output is still read from what a tool, or a site's
// wrapper around it, left running.
const outputGrace = time.Second

// call is one run of one of Slurm's tools.
type call struct {
	tool  string
	env   []string
	args  []string
	files []*os.File // inherited, from descriptor 3 on
}

// answer is what a tool printed, and how it failed if it did.
type answer struct {
	tool           string
	stdout, stderr string
	// exit is the exit status, or -1 for a tool that did not end by itself.
	exit int
	err  error
}

func (m *Manager) run(ctx context.Context, c call) answer {
	limited, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, m.tools[c.tool], c.args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env, cmd.Dir, cmd.ExtraFiles = c.env, "/", c.files
	cmd.WaitDelay = outputGrace
	// A process group of its own: signals to the provider's do not reach it,
	// and a wrapper is killed together with the tool it has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		err = nil
	}
	a := answer{
		tool:   c.tool,
		stdout: strings.ToValidUTF8(stdout.String(), "\uFFFD"),
		stderr: strings.ToValidUTF8(stderr.String(), "\uFFFD"),
		exit:   -1,
	}
	if cmd.ProcessState != nil {
		a.exit = cmd.ProcessState.ExitCode()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		a.err = fmt.Errorf("waiting for %s: %w", c.tool, context.Cause(ctx))
	case limited.Err() != nil:
		a.err = fmt.Errorf("%s gave no answer within %s", c.tool, m.cfg.Timeout)
	case a.words() != "":
		a.err = fmt.Errorf("%s failed (%w): %s", c.tool, err, a.words())
	default:
		a.err = fmt.Errorf("%s failed (%w) without a word", c.tool, err)
	}
	return a
}

// words is what the tool said on stderr, without the prefixes of its lines.
func (a answer) words() string {
	return a.joinLines(func(string) bool { return true })
}

// ownWords leaves out lines that are not the tool's own, such as a site's
// banner, unless there are no others.
func (a answer) ownWords() string {
	own := a.joinLines(func(line string) bool { return strings.HasPrefix(line, a.tool+": ") })
	if own == "" {
		return a.words()
	}
	return own
}

func (a answer) joinLines(keep func(line string) bool) string {
	var lines []string
	for line := range strings.Lines(a.stderr) {
		line = strings.TrimSpace(line)
		if line == "" || !keep(line) {
			continue
		}
		line = strings.TrimPrefix(line, a.tool+": ")
		lines = append(lines, strings.TrimPrefix(line, "error: "))
	}
	return strings.Join(lines, "; ")
}
