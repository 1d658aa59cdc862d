package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/simulator"
	"github.com/gangline/gangline/test/slurm"
)

// nodeName is the virtual node's.
const nodeName = "scale"

// world is a control plane, a simulator and a virtual node between them.
type world struct {
	control *harness.ControlPlane
	node    *harness.Node
	sim     simulator.Client
	rest    *rest.Config         // the administrator's
	clients kubernetes.Interface // likewise, without a bound to its rate
	spool   string
	metrics string // the node's, a URL

	ends []func() error
}

// podsPerHPCNode is how many pods' CPUs a simulated node has.
const podsPerHPCNode = 100

// podsPerScheduledGang is the size of the gangs that the scheduler binds.
const podsPerScheduledGang = 10

// newWorld starts all of it. What it started is ended by stop.
func newWorld(ctx context.Context, s settings) (*world, error) {
	w := &world{}
	err := w.start(ctx, s)
	if err != nil {
		return nil, errors.Join(harness.Interrupted(ctx, err), w.stop())
	}
	return w, nil
}

func (w *world) start(ctx context.Context, s settings) error {
	uid, gid, home, err := jobUser(ctx)
	if err != nil {
		return err
	}
	dir, err := harness.RunDir(ctx, s.root, "scale", s.progress)
	if err != nil {
		return err
	}
	// The spool is in memory: it stands for a fast shared filesystem, and no disk is measured.
	shared, err := harness.MemoryDir(dir)
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func() error { return errors.Join(os.RemoveAll(shared), os.RemoveAll(dir)) })
	if err := os.Chown(shared, uid, gid); err != nil {
		return fmt.Errorf("making the spool: %w", err)
	}
	fmt.Fprintln(s.progress, "starting the Kubernetes control plane")
	w.control, err = harness.StartControlPlane(ctx, filepath.Join(s.root, "bin"), filepath.Join(dir, "cluster"), s.progress)
	if err != nil {
		return err
	}
	w.ends = append(w.ends, func() error {
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return w.control.Stop(stop)
	})
	if err = w.admin(); err != nil {
		return err
	}
	if s.scheduled == 0 {
		if err := w.pause("kube-scheduler", "jobset"); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.progress, "starting the simulator and the virtual node")
	nodes, cpus := 1+max(s.pods, s.scheduled)/podsPerHPCNode, podsPerHPCNode
	if s.stormy() {
		nodes, cpus = stormNodes(s.pods), podsPerStormNode // or the failure of one would harm all
	}
	client, stop, err := startSimulator(ctx, shared, uid, gid, simulated{
		Seed: s.seed, Nodes: nodes, CPUs: cpus, Failures: failuresOf(s.failures),
		Latency: simulator.Latency{Submit: 100 * time.Millisecond, Agent: 200 * time.Millisecond, Pod: 100 * time.Millisecond, Stop: 100 * time.Millisecond},
		Idle:    max(time.Second, time.Duration(s.pods)*30*time.Microsecond),
	})
	if err != nil {
		return err
	}
	w.sim = client
	w.ends = append(w.ends, stop)
	return w.startNode(ctx, s, dir, shared, uid, gid, home)
}

func (w *world) startNode(ctx context.Context, s settings, dir, shared string, uid, gid int, home string) error {
	programs := filepath.Join(dir, "programs")
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's file: %w", err)
	}
	if err := copyProgram(self, filepath.Join(programs, "gangline-node")); err != nil {
		return err
	}
	// Nobody runs it.
	if err := os.WriteFile(filepath.Join(programs, "gangline-agent"), nil, 0o600); err != nil {
		return fmt.Errorf("preparing the virtual node: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	w.metrics = "http://" + address + "/metrics"
	w.spool = filepath.Join(shared, "spool")
	w.node, err = harness.StartNode(ctx, harness.NodeOptions{
		ControlPlane: w.control, Root: s.root, Dir: filepath.Join(dir, "node"), Name: nodeName, Shared: shared, Spool: w.spool,
		UID: uid, GID: gid, Home: home, Programs: programs,
		Env: []string{envPart + "=" + partNode, envSocket + "=" + w.sim.Socket},
		Configure: func(c *provider.Config) {
			c.WorkloadManager = "slurm" // in name only
			c.MaxPods = 2 * max(s.pods, s.scheduled)
			c.MetricsAddress = address
		},
	})
	if err != nil {
		return err
	}
	w.ends = append(w.ends, w.node.Stop)
	return nil
}

// pause stops components of the control plane that have nothing to do in a run, and would
// hold a copy of all pods each.
func (w *world) pause(components ...string) error {
	for _, c := range components {
		if err := w.control.Signal(c, syscall.SIGSTOP); err != nil {
			return err
		}
		w.ends = append(w.ends, func() error { return w.control.Signal(c, syscall.SIGCONT) })
	}
	return nil
}

// stop ends all that was started, the last first.
func (w *world) stop() error {
	var errs []error
	for i := len(w.ends) - 1; i >= 0; i-- {
		errs = append(errs, w.ends[i]())
	}
	return errors.Join(errs...)
}

func jobUser(ctx context.Context) (uid, gid int, home string, err error) {
	if uid = os.Getuid(); uid != 0 {
		return uid, os.Getgid(), os.Getenv("HOME"), nil
	}
	return slurm.EnsureUser(ctx, "hpcuser")
}

// admin makes the administrator's clients.
func (w *world) admin() (err error) {
	if w.rest, err = clientcmd.BuildConfigFromFlags("", w.control.Kubeconfig()); err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	c := rest.CopyConfig(w.rest)
	c.QPS = -1
	c.ContentType = runtime.ContentTypeProtobuf
	if w.clients, err = kubernetes.NewForConfig(c); err != nil {
		return fmt.Errorf("making the API server's client: %w", err)
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // it only showed the number
	return l.Addr().String(), nil
}

// copyProgram puts a program where others can run it.
func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copying this program: %w", err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil { //nolint:gosec // others are to run it
		return fmt.Errorf("copying this program: %w", err)
	}
	return nil
}

// until tries something until it succeeds.
func until(ctx context.Context, most time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, most, err)
		case <-tick.C:
		}
	}
}
