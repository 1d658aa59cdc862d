package mpirun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// The exit statuses of a launcher's own failures.
const (
	exitFailure  = 1
	exitNotFound = 127
)

// self is this program's file, whatever it was called by.
const self = "/proc/self/exe"

// call is one call of a launcher.
type call struct {
	name     string // by which it was called
	args     []string
	env      []string
	settings Settings
	// next is the launcher of that name that stands next on PATH, "" for none.
	next   string
	stderr io.Writer
}

// Main does what mpirun does. The first word is the name by which it was called.
// It returns the exit status, and does not return where it becomes another
// launcher.
func Main(ctx context.Context, args []string) int {
	c := call{name: filepath.Base(args[0]), args: args[1:], env: os.Environ(), stderr: os.Stderr}
	c.next = remoteshell.Next(self, c.name, c.getenv("PATH"))
	var inPod bool
	var err error
	if c.settings, inPod, err = ReadSettings(c.getenv); err != nil {
		return c.fail(err)
	}
	switch {
	case !inPod:
		return c.stepAside()
	case c.settings.Mode == ModeSrun:
		c.settle(ctx)
		return c.start(ctx)
	}
	c.settle(ctx)
	return c.hand(ctx)
}

// hand makes sure that the ranks can start, and hands over to the launcher that
// starts them.
func (c call) hand(ctx context.Context) int {
	request, err := launcher.Parse(c.args, true)
	if request.Informs {
		return c.stepAside()
	}
	var programs []launcher.RankProgram
	if err == nil { // otherwise it is the real launcher's to judge
		if programs, err = c.programs(request); err != nil {
			return c.fail(err)
		}
		if request.Local() {
			// Hydra would go there by the remote shell, which is for other pods.
			c.env = forkHere(c.env)
		} else if err := c.check(ctx, request); err != nil {
			return c.fail(err)
		}
	}
	if err := c.guard(ctx, programs); err != nil {
		return c.fail(err)
	}
	return c.stepAside()
}

// stepAside becomes the launcher that stands next on PATH.
func (c call) stepAside() int {
	if c.next == "" {
		fmt.Fprintf(c.stderr, "%s: no other %s is on PATH: is an MPI installed on this node, or its module loaded?\n", c.name, c.name)
		return exitNotFound
	}
	return c.fail(become(c.next, c.name, c.args, c.env))
}

// forkHere is the environment with which Hydra starts all ranks itself.
func forkHere(env []string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, "HYDRA_LAUNCHER") || strings.HasPrefix(entry, "I_MPI_HYDRA_BOOTSTRAP")
	})
	return append(kept, "HYDRA_LAUNCHER=fork", "I_MPI_HYDRA_BOOTSTRAP=fork")
}

// check asks whether the pods that the command line needs can take ranks.
func (c call) check(ctx context.Context, request launcher.Request) (err error) {
	launch := control.Launch{Request: request, CheckOnly: true, Patience: c.patience()}
	if launch.Default, err = c.defaultHosts(); err != nil {
		return nil //nolint:nilerr // the real launcher says what is wrong with it
	}
	if request.Hostfile != "" {
		if launch.Hostfile, err = readHostfile(request.Hostfile); err != nil {
			return nil //nolint:nilerr // as above
		}
	} else if len(launch.Default) == 0 {
		return nil // it stays in the pod
	}
	_, err = control.Do(ctx, c.settings.Socket, control.Call{
		Request: control.Request{Launch: &launch},
		Files:   []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Say:     c.say,
	})
	if errors.Is(err, control.ErrGone) {
		return nil // nobody can tell
	}
	return err
}

// patience is for how long pods that are still to come are waited for, nil where
// nothing sensible is said.
func (c call) patience() *time.Duration {
	if d := remoteshell.Patience(c.env, 0); d > 0 {
		return &d
	}
	return nil
}

// start has the ranks started by the workload manager.
func (c call) start(ctx context.Context) int {
	request, err := launcher.Parse(c.args, false)
	if err != nil {
		return c.fail(err)
	}
	if request.Informs {
		return c.inform()
	}
	if request.Verbose {
		for _, ignored := range request.Ignored {
			c.say("ignored: " + ignored)
		}
	}
	launch := control.Launch{Request: request, Patience: c.patience()}
	if launch.Default, err = c.defaultHosts(); err != nil {
		return c.fail(err)
	}
	if request.Hostfile != "" {
		if launch.Hostfile, err = readHostfile(request.Hostfile); err != nil {
			return c.fail(err)
		}
	}
	if launch.Programs, err = c.programs(request); err != nil {
		return c.fail(err)
	}
	if launch.PMI, err = c.chooseProtocol(ctx, launch.Programs); err != nil {
		return c.fail(err)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		if waitUnread(os.Stdout) {
			end(errUnread)
		}
	}()
	exit, err := control.Do(ctx, c.settings.Socket, control.Call{
		Request: control.Request{Launch: &launch},
		Files:   []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Signals: signals(ctx),
		Say:     c.say,
	})
	switch {
	case errors.Is(context.Cause(ctx), errUnread):
		return exitUnread
	case err != nil:
		return c.fail(err)
	}
	return exit
}

// programs are what the ranks of a command line run.
func (c call) programs(request launcher.Request) ([]launcher.RankProgram, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("asking for the working directory: %w", err)
	}
	var programs []launcher.RankProgram
	for _, p := range request.Programs {
		dir := p.Dir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(here, dir)
		}
		programs = append(programs, launcher.RankProgram{
			Argv: p.Argv, Dir: dir, DirGiven: p.Dir != "", Env: append(launcher.Inherited(c.env), p.Environment(c.env)...),
		})
	}
	return programs, nil
}

// inform answers --version and --help: by the MPI's own launcher, because that is
// what programs ask for.
func (c call) inform() int {
	if c.next != "" {
		return c.stepAside()
	}
	fmt.Println("mpirun (Gangline), which starts ranks by the workload manager")
	return 0
}

// defaultHostfiles are the variables by which the pod's owner, or we, name the
// hostfile of launchers that are told of none. All name the same hosts.
func defaultHostfiles() []string {
	return []string{"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"}
}

func (c call) defaultHosts() ([]launcher.Host, error) {
	for _, name := range defaultHostfiles() {
		if path := c.getenv(name); path != "" {
			return readHostfile(path)
		}
	}
	return nil, nil
}

func readHostfile(path string) ([]launcher.Host, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the hostfile: %w", err)
	}
	hosts, err := launcher.ParseHostfile(string(data))
	if err != nil {
		return nil, fmt.Errorf("reading the hostfile %s: %w", path, err)
	}
	return hosts, nil
}

func (c call) getenv(name string) string {
	value := ""
	for _, entry := range c.env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

func (c call) say(line string) { fmt.Fprintf(c.stderr, "%s: %s\n", c.name, line) }

func (c call) fail(err error) int {
	c.say(err.Error())
	return exitFailure
}
