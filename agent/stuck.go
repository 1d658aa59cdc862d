package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/spool"
)

// endedSubsystem is the SSH subsystem by which an agent tells how many ranks of a
// step have ended in its pod, and their highest exit status. Standard input is the
// step's name.
const endedSubsystem = "ended@gangline.dev"

const (
	// endedPause is how often it is asked whether all ranks have ended, and
	// stuckGrace what the workload manager's command then gets to end.
	endedPause = 2 * time.Second
	stuckGrace = 3 * time.Second
)

// ends is how many ranks have ended, and the highest of their exit statuses.
type ends struct{ ranks, exit int }

// serveEnded serves endedSubsystem.
func (s *slot) serveEnded(in io.Reader, out io.Writer) (int, error) {
	if in == nil {
		return 0, fmt.Errorf("no step is named")
	}
	step, err := io.ReadAll(io.LimitReader(in, 256))
	if err == nil {
		e := s.ranks.endsOf(strings.TrimSpace(string(step)))
		_, err = fmt.Fprintln(out, e.ranks, e.exit)
	}
	return 0, err
}

// endedIn asks an agent for the ends of a step's ranks.
func (s *slot) endedIn(ctx context.Context, slot int, step string, ssh spool.SSH) (ends, error) {
	if slot == s.index {
		return s.ranks.endsOf(step), nil
	}
	answer, err := s.askAgent(ctx, slot, ssh, sshclient.Session{Argument: endedSubsystem, Stdin: strings.NewReader(step)})
	if err != nil {
		return ends{}, err
	}
	var e ends
	if _, err := fmt.Sscan(answer, &e.ranks, &e.exit); err != nil {
		return ends{}, fmt.Errorf("reading how ranks ended: %w", err)
	}
	return e, nil
}

// unstick ends the workload manager's command if it stays when all ranks have
// ended. Before that it sends their highest exit status to stuck.
//
// srun does so now and then in heterogeneous jobs with PMIx: it stops one agent of
// its PMIx plugin for each component, and waits for ever for the second (seen in
// Slurm 22.05, pmixp_abort_agent_stop).
func (s *slot) unstick(ctx context.Context, proc *process.Process, plan launchPlan, step string, ssh spool.SSH, stuck chan<- int) {
	pause := time.NewTicker(endedPause)
	defer pause.Stop()
	for {
		select {
		case <-proc.Done():
			return
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		all := s.endedAnywhere(ctx, plan.pods, step, ssh)
		if all.ranks < len(plan.ranks) {
			continue
		}
		select {
		case <-proc.Done():
			return
		case <-time.After(stuckGrace):
			s.logger.Info("all ranks have ended, and the workload manager's command has not; ending it", "ranks", all.ranks)
			stuck <- all.exit
			_ = proc.SignalAlone(unix.SIGKILL)
			return
		}
	}
}

// endedAnywhere adds up what the agents say. One that says nothing counts as none.
func (s *slot) endedAnywhere(ctx context.Context, pods []launcher.Pod, step string, ssh spool.SSH) ends {
	var all ends
	var mu sync.Mutex
	var asking sync.WaitGroup
	places := make(chan struct{}, mostQuestions)
	for _, pod := range pods {
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			e, err := s.endedIn(ctx, pod.Slot, step, ssh)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all.ranks, all.exit = all.ranks+e.ranks, max(all.exit, e.exit)
		})
	}
	asking.Wait()
	return all
}

// mayStick tells the steps that unstick is for.
func mayStick(ranks []launcher.Rank, pmi string) bool {
	return launcher.SpeaksPMIx(pmi) && ranks[0].Pod.Component != ranks[len(ranks)-1].Pod.Component
}
