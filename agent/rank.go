package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi/launcher"
)

// rankGrace is what a rank gets to end when its step has gone, between SIGTERM
// and SIGKILL.
const rankGrace = 2 * time.Second

// rank starts a rank in the pod and waits for its end. It is a process of the pod
// like any other: it has the pod's root, devices and CPUs, and ends with it. Its
// files are those of the workload manager's own process, which asks for it.
func (c controlled) rank(ctx context.Context, r control.Rank, by control.Caller) (int, error) {
	recipe, pod, err := c.sessionRecipe(ctx, sshd.Command{Argv: r.Program.Argv})
	if err != nil {
		return 0, err
	}
	ctx, leave := pod.join(ctx)
	defer leave()
	if r.Program.Dir != "" {
		recipe.Dir, recipe.DirMustExist = r.Program.Dir, true
	}
	if !r.Program.DirGiven { // the launcher's own, which other pods may not have
		recipe.DirElse = home(recipe.Env)
	}
	recipe.Env = launcher.Override(recipe.Env, r.Program.Env, r.Env)
	streams := sandbox.Streams{Stdin: by.Files[0], Stdout: by.Files[1], Stderr: by.Files[2]}
	var trap *tripwire
	switch {
	case len(r.Files) == 1 && len(by.Files) == 4:
		streams.Extra = by.Files[3]
		recipe.Env = launcher.Override(recipe.Env, []string{r.Files[0] + "=" + strconv.Itoa(sandbox.ExtraFD)})
	case launcher.SpeaksPMIx(r.PMI):
		if trap, err = newTripwire(); err != nil {
			return 0, err
		}
		defer trap.remove()
		streams.Extra = trap.bait
		recipe.Env = launcher.Override(recipe.Env, trap.variables(r))
	}
	starter := c.starter()
	starter.KillGroup = true
	proc, err := starter.Start(ctx, recipe, streams)
	var refused *sandbox.StartError
	if errors.As(err, &refused) {
		_, _ = fmt.Fprintf(by.Files[2], "rank %d: %s\n", r.Number, refused.Message)
		return refused.Status, nil
	}
	if err != nil {
		return 0, err
	}
	if trap != nil {
		trap.watch(proc)
	}
	c.ranks.add(r.Step, proc)
	overseeRank(ctx, proc, by.Signals)
	exit := c.ranks.remove(r.Step, proc)
	if err := c.namespaces.ReleaseUnused(); err != nil {
		c.logger.Warn("ending a rank", "error", err)
	}
	if trap != nil && trap.sprung.Load() {
		return 0, wrongProtocol(r)
	}
	return exit, nil
}

func home(env []string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "HOME="); ok {
			return value
		}
	}
	return "/"
}

// overseeRank passes signals on until a rank ends, and ends it when its step has
// gone.
func overseeRank(ctx context.Context, proc *process.Process, signals <-chan string) {
	for {
		select {
		case <-proc.Done():
			return
		case name := <-signals:
			if sig := unix.SignalNum("SIG" + name); sig != 0 {
				_ = proc.Signal(sig)
			}
		case <-ctx.Done():
			_ = proc.Signal(unix.SIGTERM)
			select {
			case <-proc.Done():
			case <-time.After(rankGrace):
				_ = proc.Signal(unix.SIGKILL)
				<-proc.Done()
			}
			return
		}
	}
}

// tripwire finds out whether a rank speaks PMI where PMIx is spoken. Then it
// would find nobody to speak to, and take itself for a world of one rank without
// an error. PMI's library asks first of all whom to speak to (PMI_FD): here that
// is the tripwire, and a word to it gives the rank away, whatever kind of program
// it is. A library of PMIx does not look there.
type tripwire struct {
	ours, bait *os.File
	sprung     atomic.Bool
}

func newTripwire() (*tripwire, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("watching for the protocol of a rank: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil { // so that closing it ends a read
		return nil, fmt.Errorf("watching for the protocol of a rank: %w", err)
	}
	return &tripwire{ours: os.NewFile(uintptr(pair[0]), "tripwire"), bait: os.NewFile(uintptr(pair[1]), "bait")}, nil //nolint:gosec // file descriptors
}

func (t *tripwire) variables(r control.Rank) []string {
	return []string{
		"PMI_FD=" + strconv.Itoa(sandbox.ExtraFD),
		"PMI_RANK=" + strconv.Itoa(r.Number), "PMI_SIZE=" + strconv.Itoa(r.Size),
	}
}

// watch kills the rank that says something.
func (t *tripwire) watch(proc *process.Process) {
	_ = t.bait.Close() // the rank has it
	go func() {
		var word [1]byte
		if n, _ := t.ours.Read(word[:]); n > 0 {
			t.sprung.Store(true)
			_ = proc.Signal(unix.SIGKILL)
		}
	}()
}

func (t *tripwire) remove() {
	_ = t.ours.Close()
	_ = t.bait.Close()
}

func wrongProtocol(r control.Rank) error {
	return fmt.Errorf("%s speaks PMI (as MPICH and Intel MPI do), and the ranks were started for %s: each would have been a world of its own; call the launcher of the program's own MPI, or set GANGLINE_MPI_PMI=%s or the annotation gangline.dev/mpi-pmi: %s",
		r.Program.Argv[0], r.PMI, launcher.PMI2, launcher.PMI2)
}
