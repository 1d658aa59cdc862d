package near

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gangline/gangline/provider/site/gateway"
)

// Config says which gateway to start.
type Config struct {
	// User is the site's user, as this machine calls it.
	User string
	// Agent is the path of gangline-agent here. Who may write to it decides what runs
	// as the user.
	Agent string
	// Sudo is the path of sudo for BySudo; empty for the search path.
	Sudo string
	// Log gets what the gateway says; nil for nobody.
	Log *slog.Logger
}

// Subcommand is gangline-agent's that is a gateway.
const Subcommand = "gateway"

// Directly starts gateways as another user by this process' own right: it is root.
func Directly(c Config) gateway.Start {
	return func(context.Context) (io.ReadWriteCloser, error) {
		if os.Geteuid() != 0 {
			return nil, fmt.Errorf("starting a gateway as %s: this process is not root; run it as root, or use sudo", c.User)
		}
		a, err := lookUp(c.User)
		if err != nil {
			return nil, err
		}
		cmd := exec.Command(c.Agent, Subcommand)
		cmd.Env = a.environ()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
		return start(cmd, c)
	}
}

// BySudo starts gateways by sudo, which must let this process' user run the agent as
// the other without a password. A line of sudoers that does so:
//
//	gangline ALL=(%hpcusers) NOPASSWD: /opt/gangline/gangline-agent gateway
func BySudo(c Config) gateway.Start {
	return func(context.Context) (io.ReadWriteCloser, error) {
		if _, err := lookUp(c.User); err != nil {
			return nil, err
		}
		sudo := c.Sudo
		if sudo == "" {
			var err error
			if sudo, err = exec.LookPath("sudo"); err != nil {
				return nil, fmt.Errorf("starting a gateway as %s: %w; install sudo", c.User, err)
			}
		}
		cmd := exec.Command(sudo, SudoArgs(c.User, c.Agent)...)
		cmd.Env = []string{"PATH=" + systemPath, "LANG=C"}
		return start(cmd, c)
	}
}

// SudoArgs are sudo's: -n never asks for a password, -H sets HOME to the user's.
func SudoArgs(user, agent string) []string {
	return []string{"-n", "-H", "-u", user, "--", agent, Subcommand}
}

func start(cmd *exec.Cmd, c Config) (io.ReadWriteCloser, error) {
	if !filepath.IsAbs(c.Agent) {
		return nil, fmt.Errorf("starting a gateway: the agent's path %q is not absolute", c.Agent)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a gateway as %s: %w", c.User, err)
	}
	// A pipe of our own: that of os/exec is closed when the process has ended, whether
	// all was read or not.
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a gateway as %s: %w", c.User, errors.Join(err, in.Close()))
	}
	p := &process{cmd: cmd, user: c.User, in: in, out: out, ended: make(chan struct{})}
	p.words.Log = c.Log
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.WaitDelay = childOut, &p.words, "/", endWithin
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // no terminal, and no signals that are meant for us
	err = cmd.Start()
	childOut.Close() //nolint:errcheck // the child has its own
	if err != nil {
		_, _ = in.Close(), out.Close()
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w; is %s executable for %s, and its directories?", err, c.Agent, c.User)
		}
		return nil, fmt.Errorf("starting a gateway as %s: %w", c.User, err)
	}
	go func() {
		_ = cmd.Wait() // its state says it all
		close(p.ended)
	}()
	return p, nil
}

// endWithin is how long a gateway has to end once its input has ended. One that waits
// for an sbatch is left to do so.
const endWithin = 2 * time.Second

// process is a gateway that runs.
type process struct {
	cmd   *exec.Cmd
	user  string
	in    io.WriteCloser
	out   *os.File
	words gateway.Words
	ended chan struct{}
}

func (p *process) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the gateway by the end of its input: it may have to wait for a locked
// command, and must not be killed meanwhile.
func (p *process) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

// Cause explains why the gateway has ended.
func (p *process) Cause(err error) error {
	select {
	case <-p.ended:
	case <-time.After(endWithin):
		return fmt.Errorf("the gateway of %s has closed its stream: %w", p.user, err)
	}
	how := p.cmd.ProcessState.String()
	if words := p.words.String(); words != "" {
		how += ": " + words
	}
	return fmt.Errorf("the gateway of %s has ended (%s)", p.user, how)
}
