package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/session"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/mpi/sshclient"
)

const (
	// Name is the program's name (the base of argv[0]).
	Name = "sshd"
	// exitFailure is sshd's exit status for failures of its own.
	exitFailure = 255
	// versionText is what -V prints.
	versionText = "Gangline_SSH (understands the command line of OpenSSH's sshd)"
)

// Main does what sshd does. args are the words with which it was called, its own
// name first. It serves until the context ends, as by SIGTERM, and returns the exit
// status: 0 then, 255 for a failure.
func Main(ctx context.Context, args []string, env func(string) string, stderr io.Writer) int {
	o, err := parseOptions(args[1:])
	if err == nil && o.version {
		fmt.Fprintln(stderr, versionText)
		return 0
	}
	if err == nil {
		err = run(ctx, o, args, env, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Name, err)
		return exitFailure
	}
	return 0
}

func run(ctx context.Context, o options, args []string, env func(string) string, stderr io.Writer) error {
	detached := env(detachedVariable) != ""
	if detached {
		stderr = io.Discard // for all but the error that it fails with
		if err := os.Unsetenv(detachedVariable); err != nil {
			return err
		}
	}
	if o.logFile != "" {
		file, err := os.OpenFile(o.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("opening the log of -E: %w", err)
		}
		defer file.Close() //nolint:errcheck // only a log
		stderr = file
	}
	logger := newLogger(o, stderr)
	set, err := configure(o, logger)
	if err != nil || o.check {
		return err
	}
	if !o.foreground && !leads() {
		return detach(args)
	}
	gang, err := remoteshell.ReadFiles(env(remoteshell.Variable))
	if err != nil {
		return err
	}
	k, err := loadKeys(set, gang, env, logger)
	if err != nil {
		return err
	}
	listeners, err := open(set.listen(), logger)
	if err != nil {
		return err
	}
	d := service{keys: k, gang: gang, env: env, logger: logger}
	if detached {
		d.ready = letGo
	}
	return d.serve(ctx, listeners)
}

func newLogger(o options, to io.Writer) *slog.Logger {
	level := slog.LevelInfo
	switch {
	case o.debug:
		level = slog.LevelDebug
	case o.quiet:
		level = slog.LevelError
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}

// configure reads the configuration. One that is not there, as an image's is not on
// an HPC node, leaves the defaults.
func configure(o options, logger *slog.Logger) (settings, error) {
	if o.configFile == "" {
		return o.settings, nil
	}
	text, err := os.ReadFile(o.configFile)
	if errors.Is(err, os.ErrNotExist) {
		logger.Info("there is no such configuration in the pod, the defaults are used", "file", o.configFile)
		return o.settings, nil
	}
	if err != nil {
		return settings{}, fmt.Errorf("reading the configuration: %w", err)
	}
	var file settings
	if err := file.readFile(text); err != nil {
		return settings{}, fmt.Errorf("reading the configuration %s: %w", o.configFile, err)
	}
	return o.settings.merge(file), nil
}

// service is all that is known when the ports are open.
type service struct {
	keys   keys
	gang   remoteshell.Files
	env    func(string) string
	ready  func() error // nil if nobody waits for it
	logger *slog.Logger
}

// serve serves the listeners until the context ends.
func (d service) serve(ctx context.Context, listeners []listener) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("asking the host name: %w", err)
	}
	table, err := process.NewTable()
	if err != nil {
		return err
	}
	reaping, stopReaping := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { table.Run(reaping) })
	defer background.Wait()
	defer stopReaping()

	shared := &sharing{own: d.keys.gang, self: hostname, there: map[string]int{}}
	server, err := sshd.New(sshd.Config{
		HostKey: d.keys.host, AuthorizedKeys: d.keys.authorized, Admit: shared.admit,
		Subsystems: []string{session.SFTP, sharedPort},
		Peers:      peers(d.env),
		Logger:     d.logger,
	}, runner{table: table, shared: shared, env: os.Environ(), home: d.env("HOME")})
	if err == nil && d.ready != nil {
		err = d.ready()
	}
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		background.Go(func() {
			failed <- server.Serve(serving, l)
			stop() // the others too
		})
		if l.taken != "" {
			background.Go(func() { tellAgent(serving, l, d.env, d.logger) })
		}
		if l.taken != "" && d.keys.gang != nil {
			credentials := sshclient.Credentials{HostPublicKey: []byte(d.gang.Peers.HostKey), ClientKey: d.gang.ClientKey}
			background.Go(func() { announce(serving, l.taken, hostname, credentials, d.logger) })
		}
	}
	var all []error
	for range listeners {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

// peers looks a host of the gang up in the table as it is then.
func peers(env func(string) string) func(string) []string {
	return func(host string) []string {
		gang, err := remoteshell.ReadFiles(env(remoteshell.Variable))
		if err != nil {
			return nil
		}
		return gang.Peers.Addresses(host)
	}
}

// runner runs the commands of sessions as processes of this container.
type runner struct {
	table  *process.Table
	shared *sharing
	env    []string
	home   string
}

var _ sshd.Runner = runner{}

func (r runner) Run(ctx context.Context, c sshd.Command) (int, error) {
	if c.Subsystem == sharedPort {
		return r.shared.join(ctx, c.Stdin)
	}
	recipe := sandbox.Recipe{Env: r.env}
	if dir, err := os.Getwd(); err == nil && dir != "/" {
		recipe.Dir = dir // the container's workingDir
	}
	session.Complete(&recipe, c, r.home)
	return session.Run(ctx, sandbox.Starter{Table: r.table}, recipe, c)
}
