package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/spool"
)

// signalSubsystem is the SSH subsystem by which a launcher's agent has the ranks
// of its step signalled in other pods. Standard input is the step's name and the
// signal's, without SIG.
//
// Signals do not go by way of the workload manager: srun passes on SIGUSR1 and
// SIGUSR2, and kills the step at any other.
const signalSubsystem = "signal@gangline.dev"

// rankTable knows the ranks that run in a slot, by the names of their steps. Its
// zero value is ready for use.
type rankTable struct {
	mu    sync.Mutex
	ranks map[string]map[*process.Process]bool
	// told are the steps whose ranks were told to end, and by which signal.
	told map[string]unix.Signal
	// ended are those that have ended.
	ended map[string]ends
}

// add notes a rank that has been started. One whose step was told to end
// meanwhile is told now.
func (t *rankTable) add(step string, p *process.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ranks == nil {
		t.ranks = map[string]map[*process.Process]bool{}
	}
	if t.ranks[step] == nil {
		t.ranks[step] = map[*process.Process]bool{}
	}
	t.ranks[step][p] = true
	if sig := t.told[step]; sig != 0 {
		_ = p.Signal(sig)
	}
}

// remove takes a rank that has ended off the table and returns its exit status for
// the workload manager. One that was told to end and did so has not failed: or it
// would cut short those that have more to do before they end.
func (t *rankTable) remove(step string, p *process.Process) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.ranks[step], p); len(t.ranks[step]) == 0 {
		delete(t.ranks, step)
	}
	exit := process.ExitCode(p.Status())
	if told := t.told[step]; told != 0 && exit == 128+int(told) {
		exit = 0
	}
	if t.ended == nil {
		t.ended = map[string]ends{}
	}
	before := t.ended[step]
	t.ended[step] = ends{before.ranks + 1, max(before.exit, exit)}
	return exit
}

// endsOf tells how many ranks of a step have ended, and how.
func (t *rankTable) endsOf(step string) ends {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended[step]
}

// forget forgets the steps that have had ranks here: the pod has ended.
func (t *rankTable) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told, t.ended = nil, nil
}

// signal signals the ranks of a step.
func (t *rankTable) signal(step string, sig unix.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if isEnd(sig) {
		if t.told == nil {
			t.told = map[string]unix.Signal{}
		}
		t.told[step] = sig
	}
	for p := range t.ranks[step] {
		_ = p.Signal(sig)
	}
}

// isEnd tells the signals by which a user ends a program.
func isEnd(sig unix.Signal) bool {
	return sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGHUP || sig == unix.SIGQUIT
}

// serveSignal serves signalSubsystem.
func (s *slot) serveSignal(in io.Reader) (int, error) {
	if in == nil {
		return 0, errors.New("no signal was sent")
	}
	text, err := io.ReadAll(io.LimitReader(in, 256))
	if err != nil {
		return 0, fmt.Errorf("reading a signal: %w", err)
	}
	step, name, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return 0, fmt.Errorf("%q is no signal", name)
	}
	s.ranks.signal(step, sig)
	return 0, nil
}

// signalRanks signals the ranks of a step in all its pods. A pod that cannot be
// reached has trouble of its own, of which the workload manager will tell.
func (s *slot) signalRanks(ctx context.Context, pods []launcher.Pod, step, name string, ssh spool.SSH) {
	var all sync.WaitGroup
	places := make(chan struct{}, mostQuestions)
	for _, pod := range pods {
		if pod.Slot == s.index {
			s.ranks.signal(step, unix.SignalNum("SIG"+name))
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			_, err := s.askAgent(ctx, pod.Slot, ssh, sshclient.Session{
				Argument: signalSubsystem, Stdin: strings.NewReader(step + " " + name),
			})
			if err != nil {
				s.logger.Warn("passing on a signal", "signal", name, "to", pod.Slot, "error", err)
			}
		})
	}
	all.Wait()
}
