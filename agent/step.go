package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/provider/spool"
)

// StepStarter says by which command a workload manager starts a step. That is all
// that the agent knows of it.
type StepStarter interface {
	// Check tells why a step cannot be.
	Check(launcher.Step) error
	Command(launcher.Step) launcher.Command
}

// stepGrace is what a step gets to end when its launcher has gone, between
// SIGTERM and SIGKILL.
const stepGrace = 2 * time.Second

// launch starts the ranks of a command line, or makes sure that they can start.
func (c controlled) launch(ctx context.Context, l control.Launch, by control.Caller) (int, error) {
	look, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	plan, err := planLaunch(look.gang, l)
	if err != nil {
		return 0, err
	}
	if err := c.reachAll(ctx, plan.pods, look.ssh, l.Patience, by.Say); err != nil {
		return 0, err
	}
	if l.CheckOnly {
		return 0, nil
	}
	return c.step(ctx, l, plan, look.ssh, by)
}

// launchPlan is what becomes of a command line.
type launchPlan struct {
	ranks []launcher.Rank
	// pods are those that must be able to take ranks.
	pods []launcher.Pod
}

// planLaunch finds the pods that a command line needs, and lays its ranks on
// them. Hosts that are none of the gang's are refused: nothing would come of them
// but an error of ssh, and Hydra waits for ever after that. Where only the pods are
// asked for, ranks that do not fit are the real launcher's business.
func planLaunch(gang launcher.Gang, l control.Launch) (launchPlan, error) {
	var all []launcher.Place
	var foreign []string
	places := make([][]launcher.Place, len(l.Request.Programs))
	for i, p := range l.Request.Programs {
		var strangers []string
		switch {
		case len(p.Hosts) > 0:
			places[i], strangers = gang.Places(p.Hosts)
		case l.Request.Hostfile != "":
			places[i], strangers = gang.Places(l.Hostfile)
		default:
			places[i], strangers = gang.Default(l.Default)
			if left := gang.LeftOut(places[i]); len(left) > 0 && len(strangers) == 0 && p.Ranks == 0 {
				return launchPlan{}, leftOutError(left, len(places[i]))
			}
		}
		all, foreign = append(all, places[i]...), append(foreign, strangers...)
	}
	if len(foreign) > 0 {
		return launchPlan{}, fmt.Errorf("%s: not of this gang, and ranks are started in its pods only; the gang's hosts are %s",
			some(foreign), some(podNames(gang.Pods)))
	}
	ranks, err := launcher.Lay(l.Request, func(program int) []launcher.Place { return places[program] })
	if err != nil && !l.CheckOnly {
		return launchPlan{}, err
	}
	plan := launchPlan{ranks: ranks}
	if err != nil {
		for _, p := range all {
			plan.need(p.Pod)
		}
	}
	for _, r := range ranks {
		plan.need(r.Pod)
	}
	return plan, nil
}

func (p *launchPlan) need(pod launcher.Pod) {
	if !slices.ContainsFunc(p.pods, func(other launcher.Pod) bool { return other.Slot == pod.Slot }) {
		p.pods = append(p.pods, pod)
	}
}

func podNames(pods []launcher.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name())
	}
	return names
}

func leftOutError(left []launcher.Pod, listed int) error {
	return fmt.Errorf("the hostfile lists %d of the gang's pods and leaves out %s, so fewer ranks would run than the gang has, and nothing was started; write the hostfile anew, or ask for fewer by -n or --host",
		listed, some(podNames(left)))
}

// step has the workload manager start the ranks, and waits for their end.
func (c controlled) step(ctx context.Context, l control.Launch, plan launchPlan, ssh spool.SSH, by control.Caller) (int, error) {
	if c.cfg.Steps == nil {
		return 0, errors.New("the launch mode srun needs Slurm, and another workload manager holds this gang; use the annotation gangline.dev/mpi-launch: ssh")
	}
	for _, r := range plan.ranks {
		if r.Pod.Node == "" {
			return 0, fmt.Errorf("it is not known on which node %s is: gangline-node is older than gangline-agent; update it", r.Pod.Name())
		}
	}
	for i, p := range l.Programs {
		l.Programs[i].Env = launcher.Override(launcher.ForSharedNodes(plan.ranks), p.Env)
	}
	name := rand.Text()
	orders, err := launcher.StepOrders{Step: name, Runs: launcher.RunsOf(plan.ranks), Programs: l.Programs, PMI: l.PMI}.Encode()
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp(c.memoryDir(), "step-")
	if err != nil {
		return 0, fmt.Errorf("making the step's files: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // the slot's directory goes as a whole
	step := launcher.Step{
		JobID: c.cfg.JobID, Components: c.components(), Ranks: plan.ranks, PMI: l.PMI,
		Label: l.Request.Label, Verbose: l.Request.Verbose, Stdin: l.Request.Stdin,
		Program: c.cfg.Self, Spool: string(c.cfg.Dir), Scratch: scratch,
	}
	if err := c.cfg.Steps.Check(step); err != nil {
		return 0, err
	}
	command := c.cfg.Steps.Command(step)
	for _, f := range command.Files {
		if err := os.WriteFile(f.Path, []byte(f.Data), 0o600); err != nil {
			return 0, fmt.Errorf("making the step's files: %w", err)
		}
	}
	path, err := exec.LookPath(command.Argv[0])
	if err != nil {
		return 0, fmt.Errorf("starting a step: %w", err)
	}
	if l.Request.Verbose {
		by.Say(strings.Join(command.Argv, " "))
	}
	ended := c.steps.begin()
	defer ended()
	// Outside of the pod: what is the pod's is killed when it ends, and whoever
	// kills this command and its helper at once leaves ranks behind.
	proc, err := c.table.Start(process.Spec{
		Path: path, Argv: command.Argv, Files: by.Files[:3],
		Env: append(launcher.WithoutManager(os.Environ()), launcher.StepVariable+"="+orders,
			// Slurm's PMIx plugin connects nodes directly or by its own messages. The
			// former fails now and then between the components of a heterogeneous job.
			"SLURM_PMIX_DIRECT_CONN=false"),
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", path, err)
	}
	c.logger.Info("a step began", "ranks", len(plan.ranks), "pods", len(plan.pods), "pmi", l.PMI)
	stuck := make(chan int, 1)
	if mayStick(plan.ranks, l.PMI) {
		c.background.Go(func() { c.unstick(c.ctx, proc, plan, name, ssh, stuck) })
	}
	told := overseeStep(ctx, proc, by.Signals, func(signal string) {
		c.background.Go(func() { c.signalRanks(c.ctx, plan.pods, name, signal, ssh) })
	})
	exit := process.ExitCode(proc.Status())
	select {
	case exit = <-stuck:
	default:
	}
	c.logger.Info("a step ended", "code", exit)
	if exit == 0 && told != 0 {
		// A run that was cut short has not succeeded, however well it ended.
		exit = 128 + int(told)
	}
	return exit, nil
}

func (s *slot) components() int {
	n := 1
	for _, slot := range s.slots {
		n = max(n, slot.Component+1)
	}
	return n
}

// overseeStep passes signals on to the ranks until the workload manager's command
// ends. It ends that command, and so the step, when the launcher has gone, and at
// the second interrupt: the first has not helped. It returns the last signal to
// end that was passed on, 0 for none.
//
// Only the command itself is signalled, not its group: it has a helper that ends
// the step should the command be killed.
func overseeStep(ctx context.Context, proc *process.Process, signals <-chan string, pass func(signal string)) (told unix.Signal) {
	for {
		select {
		case <-proc.Done():
			return told
		case name := <-signals:
			sig := unix.SignalNum("SIG" + name)
			if told == unix.SIGINT && sig == unix.SIGINT {
				_ = proc.SignalAlone(unix.SIGTERM)
				continue
			}
			if isEnd(sig) {
				told = sig
			}
			pass(name)
		case <-ctx.Done():
			_ = proc.SignalAlone(unix.SIGTERM)
			select {
			case <-proc.Done():
			case <-time.After(stepGrace):
				_ = proc.SignalAlone(unix.SIGKILL)
				<-proc.Done()
			}
			return told
		}
	}
}
