package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/agent/attach"
	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/mpirun"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// podError is why a pod fails as a whole.
type podError struct {
	reason string
	err    error
}

func (e *podError) Error() string { return e.err.Error() }
func (e *podError) Unwrap() error { return e.err }

// pod is a pod of which something runs or will. Only the slot's goroutine
// touches it.
type pod struct {
	slot    *slot
	ctx     context.Context // ends with the pod; its cause is errPodEnded
	cancel  context.CancelCauseFunc
	orders  spool.PodOrders
	life    *lifecycle.Pod
	files   files
	box     *box // nil without a container runtime
	names   []spool.Name
	current map[string]*execution // by container
	runs    map[string]int        // the last run of each container
	stays   map[string]*stay      // by run
	update  lastUpdate
	// ephemeral are the containers that came while the pod ran.
	ephemeral []spool.ContainerOrders
	logger    *slog.Logger

	search        search // for paths of the HPC node
	stopMeasuring func() // of its volumes; nil where nobody does
	evicted       string // why it was, if it was

	interrupted bool // it was told to end because the allocation ends

	taken time.Time // when the agent began with it
}

// execution is one run of a container as far as the slot knows it.
type execution struct {
	ctx     context.Context // ends with the run
	kill    context.CancelFunc
	process *process.Process // nil until it runs
	streams *attach.Console  // likewise
}

// newPod lays out a pod's files. Nothing of it runs before setNames.
func (s *slot) newPod(o spool.PodOrders) (*pod, error) {
	p := &pod{
		slot:    s,
		orders:  o,
		life:    lifecycle.NewPod(o),
		current: map[string]*execution{},
		runs:    map[string]int{},
		stays:   map[string]*stay{},
		taken:   time.Now(),
		logger:  s.logger.With("pod", o.Namespace+"/"+o.Name),
	}
	dirs := s.dirs(o.UID)
	var err error
	if p.box, err = s.newBox(o); err != nil {
		return nil, err
	}
	if err := dirs.create(p.self()); err != nil {
		return nil, err
	}
	if p.box != nil {
		if err := dirs.offerInit(); err != nil {
			return nil, err
		}
	}
	if p.files, err = layOut(dirs, o.Volumes, time.Now()); err != nil {
		return nil, err
	}
	p.tellShortLimits()
	if err := p.checkMounts(); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancelCause(s.ctx)
	return p, nil
}

// checkMounts fails for a mount that needs a private root where there is none. What else is
// wrong with a mount is its container's alone, and shows when that starts.
func (p *pod) checkMounts() error {
	if p.slot.cfg.PrivateRoot == nil {
		return nil
	}
	for _, c := range p.containers() {
		for _, m := range c.Mounts {
			var mount *mountError
			if _, err := p.files.elsewhere(m); errors.As(err, &mount) {
				return &podError{wellknown.ReasonPrivateRootUnavailable, fmt.Errorf(
					"container %q: %w, and this node allows none: %w; have user namespaces allowed on the HPC nodes, or mount only host paths at their own path",
					c.Name, mount, p.slot.cfg.PrivateRoot)}
			}
		}
	}
	return nil
}

// errPodEnded says that a process cannot begin any more.
var errPodEnded = errors.New("the pod has ended")

// join is a context for the start of a process in the pod, which ends with the pod, too:
// at once, so that a process either is there before what the pod left is looked for, or
// does not begin.
func (p *pod) join(ctx context.Context) (joined context.Context, leave func()) {
	joined, end := context.WithCancelCause(p.ctx)
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return joined, func() { stop(); end(nil) }
}

// containers are those that the pod began with.
func (p *pod) containers() []spool.ContainerOrders {
	return slices.Concat(p.orders.InitContainers, p.orders.Containers)
}

func (p *pod) container(name string) (spool.ContainerOrders, bool) {
	all := slices.Concat(p.containers(), p.ephemeral)
	i := slices.IndexFunc(all, func(c spool.ContainerOrders) bool { return c.Name == name })
	if i < 0 {
		return spool.ContainerOrders{}, false
	}
	return all[i], true
}

// setNames gives the pod the gang's table of names, at first or anew.
func (p *pod) setNames(names []spool.Name) error {
	node, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the node's table of names: %w", err)
	}
	table := hostsFile(p.slot.index, names, p.orders.HostAliases, node)
	if err := rewrite(p.files.dirs.hosts(), table); err != nil {
		return err
	}
	ssh := p.orders.SSH
	shell := remoteshell.Files{Peers: peers(names, ssh.HostPublicKey), ClientKey: ssh.ClientKey, SeenAs: p.runDir()}
	for _, n := range names {
		if n.Slot == p.slot.index && len(n.Hosts) > 0 {
			shell.Peers.Own = strings.ToLower(n.Hosts[0])
		}
	}
	if slices.ContainsFunc(p.containers(), func(c spool.ContainerOrders) bool { return c.SSHD != nil }) {
		shell.HostKey = ssh.HostKey
	}
	if err := remoteshell.WriteFiles(p.files.dirs.run(), shell); err != nil {
		return fmt.Errorf("writing the remote shell's files: %w", err)
	}
	if err := p.writeLaunchSettings(); err != nil {
		return err
	}
	p.names = names
	return nil
}

// runDir is where the pod finds the agent's own files.
func (p *pod) runDir() string {
	if p.slot.cfg.PrivateRoot == nil {
		return runDir
	}
	return p.files.dirs.run()
}

// self is the agent's own program as the pod finds it.
func (p *pod) self() string {
	if p.box != nil {
		return agentFile
	}
	return p.slot.cfg.Self
}

// status is what is to be reported of the pod.
func (p *pod) status() spool.PodStatus {
	status := p.life.Status()
	status.Taken = p.taken
	status.Interrupted = p.interrupted
	if p.evicted != "" && p.life.Finished() {
		status.Reason, status.Message = wellknown.ReasonEvicted, p.evicted
	}
	return status
}

// up tells that the pod's containers may start.
func (p *pod) up() bool { return p.names != nil }

// step carries out what is to be done now and returns when to ask again.
func (p *pod) step(now time.Time) time.Time {
	actions, wake := p.life.Step(now)
	for _, a := range actions {
		if a.Verb != lifecycle.Probe {
			p.logger.Info(string(a.Verb), "container", a.Container, "run", a.Run)
		}
		switch a.Verb {
		case lifecycle.Start:
			p.start(a.Container, a.Run)
		case lifecycle.Terminate:
			p.terminate(a.Container)
		case lifecycle.Kill:
			if e := p.current[a.Container]; e != nil {
				e.kill()
			}
		case lifecycle.Probe:
			p.probe(a)
		case lifecycle.PostStart, lifecycle.PreStop:
			p.hook(a)
		}
	}
	return wake
}

func (p *pod) terminate(container string) {
	e := p.current[container]
	if e == nil || e.process == nil {
		return
	}
	c, _ := p.container(container)
	sig, err := stopSignal(c)
	if err := errors.Join(err, e.process.Signal(sig)); err != nil {
		p.logger.Error("terminating a container", "container", container, "error", err)
	}
}

// recipe is a process in the surroundings of a run of a container, without a command; it
// fails with errNotYet before the run is settled.
func (p *pod) recipe(c spool.ContainerOrders, run int) (sandbox.Recipe, error) {
	around := p.surroundings(c, run)
	s := p.stays[around.container]
	switch {
	case s == nil:
		return sandbox.Recipe{}, errNotYet
	case s.err != nil:
		return sandbox.Recipe{}, s.err
	case p.box != nil:
		return p.imageRecipe(s, around), nil
	}
	if p.slot.cfg.PrivateRoot != nil {
		around.relocated, around.addresses = s.relocated, addresses(p.names)
	}
	r := sandbox.Recipe{Dir: c.WorkingDir, Root: s.root, Env: environment(c.Env, around), Limits: p.orders.Site.Limits}
	r.Env = append(r.Env, sshVariables(around, c)...)
	return r, nil
}

func (p *pod) surroundings(c spool.ContainerOrders, run int) surroundings {
	s := surroundings{
		hostname:  p.orders.Hostname,
		home:      p.slot.cfg.Home,
		user:      p.slot.cfg.User,
		dir:       p.runDir(),
		container: lifecycle.RunID(p.orders.UID, c.Name, run),
		devices:   p.slot.cfg.bound(p.slot.spec.GPUs),
		site:      p.siteEnvironment(),
	}
	if p.slot.cfg.PrivateRoot == nil {
		s.apart = sharesNode(p.slot.index, p.names) || p.box != nil && p.box.runtime.Apart && p.orders.MPI.Launch == mpirun.ModeSrun
	}
	return s
}
