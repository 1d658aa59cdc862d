package remoteshell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gangline/gangline/mpi/sshclient"
)

const (
	// exitFailure is ssh's exit status for failures of its own.
	exitFailure = 255
	// defaultTimeout bounds the wait for a host that does not listen yet.
	defaultTimeout = time.Minute
	// versionText is what -V prints; programs look for the word OpenSSH.
	versionText = "Gangline_SSH (understands the command line of OpenSSH)"
)

// shell is one call of the remote shell.
type shell struct {
	commandLine
	dir            string
	peers          Peers
	term           string
	stdin          io.Reader
	stdout, stderr io.Writer
	log            io.Writer // our own messages: stderr, -E's file, or nothing
}

// Main does what ssh does. The arguments are the words after "ssh". It returns the
// exit status: the remote command's, or 255 for a failure of its own. It does not
// return where it steps aside for the real ssh.
func Main(ctx context.Context, args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) (exit int) {
	c, err := parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "ssh:", err)
		return exitFailure
	}
	if c.version {
		fmt.Fprintln(stderr, versionText)
		return 0
	}
	peers, err := readPeers(env(Variable))
	if err != nil {
		fmt.Fprintln(stderr, "ssh:", err)
		return exitFailure
	}
	if _, ok := peers.find(c.host); !ok || isLocal(c.host) && c.port != "" {
		// A port at localhost is not the pod's service, but a tunnel perhaps.
		err := stepAside(args, env("PATH"))
		fmt.Fprintln(stderr, "ssh:", unknown(c.host, env(Variable), peers, err))
		return exitFailure
	}
	if c.unsupported != "" {
		// OpenSSH's own can do it, and finds the hosts by the file that is made for it.
		config := filepath.Join(env(Variable), ConfigFile)
		err := stepAside(append([]string{"-F", config}, args...), env("PATH"))
		if err == nil {
			err = fmt.Errorf("%s is not supported between the hosts of a gang where no other ssh is on PATH", c.unsupported)
		}
		fmt.Fprintln(stderr, "ssh:", err)
		return exitFailure
	}
	s := shell{commandLine: c, dir: env(Variable), peers: peers, term: env("TERM"), stdin: stdin, stdout: stdout, stderr: stderr, log: stderr}
	if c.logFile != "" {
		log, err := os.OpenFile(c.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			fmt.Fprintln(stderr, "ssh: opening the log of -E:", err)
			return exitFailure
		}
		defer log.Close()
		s.log = log
	}
	exit, err = s.run(ctx)
	if err != nil {
		s.say("ssh: %s: %v", c.host, err)
		return exitFailure
	}
	return exit
}

// stepAside becomes the real ssh. It returns only where that fails, and without
// an error where there is none.
func stepAside(args []string, searchPath string) error {
	other := Next("/proc/self/exe", "ssh", searchPath)
	if other == "" {
		return nil
	}
	err := syscall.Exec(other, append([]string{"ssh"}, args...), os.Environ())
	return fmt.Errorf("starting %s: %w", other, err)
}

// unknown says why a host can't be served.
func unknown(host, dir string, p Peers, err error) error {
	switch {
	case err != nil:
		return err
	case host == "":
		return errors.New("no host is given; usage: ssh [options] host [command]")
	case dir == "":
		return fmt.Errorf("%s: %s is not set, so the gang's hosts are not known, and no other ssh is on PATH", host, Variable)
	case len(p.Hosts) == 0:
		return fmt.Errorf("%s: the gang's hosts are not known in %s, and no other ssh is on PATH", host, dir)
	}
	return fmt.Errorf("%s is not a host of this gang, and no other ssh is on PATH; the gang's hosts are %s", host, p.list())
}

// run connects and runs the command, or a login shell.
func (s shell) run(ctx context.Context) (int, error) {
	client, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	session := sshclient.Session{
		Request: "exec", Argument: s.command,
		Env:   s.env(os.Environ()),
		Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr,
		Signals: forwardSignals(ctx, cancel),
	}
	switch {
	case s.subsystem:
		session.Request = "subsystem"
	case s.command == "":
		session.Request = "shell"
	}
	if s.noStdin {
		session.Stdin = nil
	}
	restore, err := s.terminal(ctx, &session)
	if err != nil {
		return 0, err
	}
	defer restore()
	exit, err := client.Run(ctx, session)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return exit, err
}

// say writes a message of our own, unless -q was given.
func (s shell) say(format string, args ...any) {
	if !s.quiet {
		fmt.Fprintf(s.log, format+"\n", args...)
	}
}
