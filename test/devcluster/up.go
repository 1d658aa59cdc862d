package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
)

// lockPatience is how long a killed run may take to be gone.
const lockPatience = time.Second

type upOptions struct {
	dir        string
	port       int
	extraIPs   []net.IP
	detach     bool
	fresh      bool
	timeout    time.Duration
	tuning     tuning
	auditUsers []string
	respawn    bool
	progressFD int
}

func newUpCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Start a cluster",
		Long: `Start a cluster in the given folder and keep it running until SIGINT or SIGTERM, or, with --detach, until
"devcluster down". If a component ends, the whole cluster ends, or with --respawn it is started again.

The administrator's kubeconfig DIR/kubeconfig appears when everything is ready, and is gone when the cluster is.
Its path is printed on stdout. Keys and certificates are in DIR/pki, logs in DIR/logs.

Several clusters can run side by side: all ports are free ones unless --port says otherwise.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.port < 0 || o.port > math.MaxUint16 {
				return fmt.Errorf("--port %d is not a port", o.port)
			}
			l, err := newLayout(o.dir)
			if err != nil {
				return err
			}
			if err := l.checkOwned(); err != nil {
				return err
			}
			if o.detach {
				return detach(cmd.Context(), l, o)
			}
			return up(cmd.Context(), l, o)
		},
	}
	addDirFlag(cmd, &o.dir)
	flags := cmd.Flags()
	flags.IntVar(&o.port, "port", 0, "the API server's port (0: a free one)")
	flags.IPSliceVar(&o.extraIPs, "listen-extra", nil,
		"further addresses at which the API server can be reached and which its certificate names; "+
			"they need not exist yet")
	flags.BoolVar(&o.detach, "detach", false, "return when the cluster is ready and leave it running")
	flags.BoolVar(&o.fresh, "fresh", true, "begin empty; --fresh=false keeps the data and the CA of the last run")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long to wait until the cluster is ready")
	flags.StringVar(&o.tuning.featureGates, "feature-gates", "",
		"feature gates of the Kubernetes components, as name=true,…")
	flags.StringVar(&o.tuning.runtimeConfig, "runtime-config", "", "the API server's --runtime-config")
	flags.StringArrayVar(&o.auditUsers, "audit-users", nil,
		"users whose requests are written to DIR/logs/audit.log; can be repeated")
	flags.BoolVar(&o.respawn, "respawn", false, "start a component again that ends, as an init system would")
	flags.IntVar(&o.tuning.verbosity, "verbosity", 0, "log level of the Kubernetes components")
	flags.IntVar(&o.progressFD, "progress-fd", 0, "an inherited pipe for progress messages")
	// Only detach uses it.
	_ = flags.MarkHidden("progress-fd")
	return cmd
}

// up runs a cluster until the context ends or something fails.
func up(ctx context.Context, l layout, o upOptions) error {
	p := newProgress(o.progressFD)
	lock, err := l.lockForUp(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	self, err := currentProcess()
	if err != nil {
		return err
	}
	run := &clusterRun{
		layout:   l,
		options:  o,
		lock:     lock,
		progress: p,
		state:    state{Phase: phaseStarting, Supervisor: self, Started: time.Now()},
	}
	if err := l.writeState(run.state); err != nil {
		return err
	}
	err = run.untilDone(ctx)
	run.state.Components = nil
	run.state.Phase = phaseStopped
	if err != nil {
		run.state.Phase = phaseFailed
		run.state.Error = err.Error()
	}
	return errors.Join(err, l.writeState(run.state))
}

// lockForUp takes the folder's lock. Processes of a run that was just killed are waited for: they are about to die.
func (l layout) lockForUp(ctx context.Context) (*os.File, error) {
	lock, err := l.waitLock(ctx, lockPatience)
	if errors.Is(err, errLocked) {
		pid := 0
		if s, err := l.readState(); err == nil {
			pid = s.Supervisor.PID
		}
		return nil, fmt.Errorf("a cluster is already running in %s (process %d): end it with `devcluster down --dir %s`",
			l.dir, pid, l.dir)
	}
	return lock, err
}

// clusterRun is one run of a cluster.
type clusterRun struct {
	layout   layout
	options  upOptions
	lock     *os.File
	progress *progress
	state    state
}

// untilDone starts everything, reports readiness and returns when the run is over and nothing of it is left. It
// returns nil if the run ended because ctx did.
func (r *clusterRun) untilDone(ctx context.Context) error {
	if err := r.layout.prepare(r.options.fresh); err != nil {
		return err
	}
	port := r.options.port
	if port == 0 {
		var err error
		if port, err = freePort(); err != nil {
			return err
		}
	}
	release, err := reservePort(port)
	if err != nil {
		return err
	}
	defer release()
	r.state.Server = fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := r.layout.writeState(r.state); err != nil {
		return err
	}

	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %w", err)
	}
	runCtx, fail := context.WithCancelCause(ctx)
	s := &supervisor{layout: r.layout, program: program, lock: r.lock, fail: fail}
	defer s.stop()
	defer func() { _ = os.Remove(r.layout.kubeconfig()) }()
	for _, ip := range r.options.extraIPs {
		if err := forwardPort(runCtx, ip, port); err != nil {
			return err
		}
	}

	err = r.start(runCtx, s, port)
	if err == nil {
		<-runCtx.Done()
	}
	if ctx.Err() != nil {
		r.progress.say("stopping")
		return nil
	}
	// A component that ended explains more than the wait which that broke off.
	if cause := context.Cause(runCtx); cause != nil {
		return cause
	}
	return err
}

// start brings the cluster up, in the order of who needs whom, and returns once it is ready.
func (r *clusterRun) start(ctx context.Context, s *supervisor, port int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.options.timeout,
		fmt.Errorf("not ready within %s", r.options.timeout))
	defer cancel()

	admin, err := r.layout.writePKI(r.state.Server, r.options.extraIPs)
	if err != nil {
		return err
	}
	config, err := clientConfig(admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}

	r.progress.say("starting etcd and the API server on port %d", port)
	// The API server keeps trying to reach etcd, so it need not be waited for.
	if err := s.start(componentEtcd, "--dir="+r.layout.dir); err != nil {
		return err
	}
	audit, err := auditFlags(r.layout, r.options.auditUsers)
	if err != nil {
		return err
	}
	flags := append(apiServerFlags(r.layout, port, r.options.tuning), audit...)
	if err := s.start(componentAPIServer, flags...); err != nil {
		return err
	}
	usable, err := installJobSetCRD(ctx, config)
	if err != nil {
		return err
	}
	if err := waitAPIServer(ctx, client); err != nil {
		return err
	}

	r.progress.say("API server ready; starting the controllers, the scheduler and JobSet")
	for _, component := range []struct {
		name  string
		flags []string
	}{
		{componentControllerManager, controllerManagerFlags(r.layout, r.options.tuning)},
		{componentScheduler, schedulerFlags(r.layout, r.options.tuning)},
		{componentJobSet, []string{"--dir=" + r.layout.dir}},
	} {
		if err := s.start(component.name, component.flags...); err != nil {
			return err
		}
	}
	if err := waitNamespace(ctx, client); err != nil {
		return err
	}
	r.progress.say("default namespace ready")
	if err := waitJobSet(ctx, client, usable); err != nil {
		return err
	}

	r.state.Phase = phaseReady
	r.state.Components = s.pids()
	r.state.ReadyAfter = time.Since(r.state.Started).Round(time.Millisecond).String()
	if err := r.layout.writeState(r.state); err != nil {
		return err
	}
	if r.options.respawn {
		r.respawn(s)
	}
	if err := writeFile(r.layout.kubeconfig(), admin, 0o600); err != nil {
		return err
	}
	r.progress.say("ready: Kubernetes at %s", r.state.Server)
	r.progress.done()
	if r.options.progressFD == 0 {
		fmt.Println(r.layout.kubeconfig())
	}
	return nil
}

// respawn has components that end started again from now on. The state file tells their new numbers.
func (r *clusterRun) respawn(s *supervisor) {
	ready := r.state
	var mu sync.Mutex
	again := func() {
		mu.Lock()
		defer mu.Unlock()
		ready.Components = s.pids()
		if err := r.layout.writeState(ready); err != nil {
			s.fail(err)
		}
	}
	s.respawned.Store(&again)
}
