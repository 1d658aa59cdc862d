package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemPath is searched after PATH, which a remote login may have cut short.
const systemPath = "/usr/local/bin:/usr/bin:/bin"

// outputGrace is how long output is still read from what a command, or a site's
// wrapper around it, left running.
const outputGrace = time.Second

// User implements Commands.
func (Local) User(context.Context) (User, error) {
	me, err := user.Current()
	if err != nil {
		return User{}, fmt.Errorf("looking up the own user: %w; it needs an entry in the user database", err)
	}
	u := User{Name: me.Username, UID: os.Getuid(), GID: os.Getgid(), Home: me.HomeDir}
	if u.Host, err = os.Hostname(); err != nil {
		return User{}, fmt.Errorf("looking up this machine's name: %w", err)
	}
	return u, nil
}

// Find implements Commands.
func (Local) Find(_ context.Context, names ...string) (map[string]string, error) {
	found := map[string]string{}
	dirs := filepath.SplitList(os.Getenv("PATH") + ":" + systemPath)
	for _, name := range names {
		candidates := []string{name}
		if !strings.Contains(name, "/") {
			candidates = nil
			for _, dir := range dirs {
				candidates = append(candidates, filepath.Join(dir, name))
			}
		}
		i := slices.IndexFunc(candidates, func(path string) bool {
			_, err := exec.LookPath(path)
			return filepath.IsAbs(path) && err == nil
		})
		if i >= 0 {
			found[name] = candidates[i]
		}
	}
	return found, nil
}

// Run implements Commands.
func (l Local) Run(ctx context.Context, c Command) (Result, error) {
	if len(c.Argv) == 0 || !filepath.IsAbs(c.Argv[0]) {
		return Result{}, fmt.Errorf("running %q: a program is named by its absolute path", c.Argv)
	}
	name := filepath.Base(c.Argv[0])
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("running %s: %w", name, context.Cause(ctx))
	}
	asked := ctx
	if c.Locked {
		ctx = context.WithoutCancel(ctx)
	}
	done := make(chan struct{})
	var r Result
	var err error
	go func() {
		defer close(done)
		r, err = l.run(ctx, name, c)
	}()
	select {
	case <-done:
		return r, err
	case <-asked.Done():
		if !c.Locked {
			<-done // it is being killed
		}
		return Result{}, fmt.Errorf("waiting for %s: %w", name, context.Cause(asked))
	}
}

func (l Local) run(ctx context.Context, name string, c Command) (Result, error) {
	limited, cancel := context.WithCancel(ctx)
	if c.Timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, c.Timeout)
	}
	defer cancel()
	cmd := exec.CommandContext(limited, c.Argv[0], c.Argv[1:]...)
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &stdout, &stderr, bytes.NewReader(c.Stdin)
	cmd.Env, cmd.Dir, cmd.WaitDelay = c.Env, c.Dir, outputGrace
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be our own
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if c.Locked && l.Lock != nil {
		cmd.ExtraFiles = []*os.File{l.Lock}
	}
	// A process group of its own: signals to ours do not reach it, and a wrapper is
	// killed together with the tool it has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	switch {
	case limited.Err() != nil && ctx.Err() == nil && cmd.ProcessState != nil && !cmd.ProcessState.Exited():
		return Result{}, fmt.Errorf("%s: %w (%s)", name, ErrTimeout, c.Timeout)
	case ctx.Err() != nil:
		return Result{}, fmt.Errorf("waiting for %s: %w", name, context.Cause(ctx))
	case stdout.full || stderr.full:
		return Result{}, fmt.Errorf("the output of %s: %w", name, ErrTooLarge)
	case cmd.ProcessState == nil:
		return Result{}, fmt.Errorf("starting %s: %w", name, err)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, syscall.EPIPE) {
		return Result{}, fmt.Errorf("running %s: %w", name, err)
	}
	return Result{
		Stdout: stdout.text.Bytes(), Stderr: stderr.text.Bytes(),
		Exit: cmd.ProcessState.ExitCode(), Ended: ended(cmd.ProcessState),
	}, nil
}

func ended(s *os.ProcessState) string {
	if s.Exited() {
		return "exit status " + strconv.Itoa(s.ExitCode())
	}
	return s.String()
}

// output keeps what a command prints, up to MaxOutput. A command that goes on is
// not read any more: half a list would be a lie.
type output struct {
	text bytes.Buffer
	full bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > MaxOutput {
		o.full = true
		return 0, ErrTooLarge
	}
	return o.text.Write(p)
}
