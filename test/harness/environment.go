package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/slurm"
)

// jobUser is the ordinary user that the node and its jobs run as.
const jobUser = "hpcuser"

// Options say which environment to start.
type Options struct {
	// Root is the repository; its bin directory holds the built programs.
	Root string
	// Name tells environments on one machine apart; it is the virtual node's
	// name too.
	Name string
	// Dir is where everything but Slurm's files goes.
	Dir string
	// WorkloadManager is "slurm", "flux" or "local".
	WorkloadManager string
	// Nodes is the number of HPC nodes, 4 by default.
	Nodes int
	// REST has the node speak to slurmrestd in place of Slurm's tools.
	REST bool
	// Login has the node reach the site by way of a login node, which lets Users in. The
	// node's own user is a stranger there, who cannot look into the spool.
	Login bool
	// Slurm may change the dev Slurm's configuration.
	Slurm func(*slurm.Config)
	// Cgroup has Slurm track jobs and limit their memory with cgroups.
	Cgroup bool
	// NoUserNamespaces keeps Slurm's jobs from making user namespaces.
	NoUserNamespaces bool
	// ControlPlane is one to share; nil starts one in Dir.
	ControlPlane *ControlPlane
	// Cluster is the HPC cluster's name for TrainJobs; empty for the default.
	Cluster string
	// Address is where the node's port is; 127.0.0.1 if empty.
	Address string
	// Programs is the directory of the node's programs; Root's bin if empty.
	Programs string
	// Env are variables of the node's environment, besides its own.
	Env []string
	// Configure may change the node's configuration.
	Configure func(*provider.Config)
	// Detach leaves everything running when this program ends.
	Detach   bool
	Progress io.Writer
}

// Environment is a control plane, a workload manager and a virtual node.
type Environment struct {
	ControlPlane *ControlPlane
	Slurm        *slurm.Cluster // nil with another workload manager
	Flux         *Flux          // nil with another workload manager
	Login        *LoginNode     // nil without one
	Node         *Node
	Controller   *Controller // nil with a control plane that is shared
	Name         string

	dir              string
	node             NodeOptions
	ownsControlPlane bool
}

// Start starts an environment. What it started is ended again on an error.
func Start(ctx context.Context, o Options) (_ *Environment, err error) {
	if o.Nodes == 0 {
		o.Nodes = 4
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	e := &Environment{ControlPlane: o.ControlPlane, Name: o.Name, dir: o.Dir}
	defer func() {
		if err != nil {
			_ = e.Stop(context.WithoutCancel(ctx))
		}
	}()
	if e.ControlPlane == nil {
		fmt.Fprintln(o.Progress, "starting the Kubernetes control plane")
		if e.ControlPlane, err = StartControlPlane(ctx, filepath.Join(o.Root, "bin"), filepath.Join(o.Dir, "cluster"), o.Progress); err != nil {
			return nil, err
		}
		e.ownsControlPlane = true
		fmt.Fprintln(o.Progress, "starting gangline-controller")
		if e.Controller, err = StartController(ctx, e.ControlPlane, o.Root, filepath.Join(o.Dir, "controller"), o.Detach); err != nil {
			return nil, err
		}
	}
	node := NodeOptions{
		ControlPlane: e.ControlPlane, Root: o.Root, Dir: filepath.Join(o.Dir, "node"), Name: o.Name, Address: o.Address,
		Programs: o.Programs, Env: o.Env, Detach: o.Detach,
	}
	switch o.WorkloadManager {
	case "slurm":
		err = e.useSlurm(ctx, o, &node)
	case "flux":
		err = e.useFlux(ctx, o, &node)
	default:
		err = useLocal(ctx, o, &node)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(o.Progress, "starting gangline-node")
	e.node = node
	e.Node, err = StartNode(ctx, node)
	return e, err
}

// Another starts a further virtual node, of another name, beside the first. What it
// returns shares all but the node, which the caller stops.
func (e *Environment) Another(ctx context.Context, name string, change func(*NodeOptions)) (*Environment, error) {
	o := e.node
	o.Name, o.Dir = name, filepath.Join(e.dir, name)
	change(&o)
	node, err := StartNode(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Environment{ControlPlane: o.ControlPlane, Slurm: e.Slurm, Flux: e.Flux, Node: node, Name: name, dir: e.dir, node: o}, nil
}

func (e *Environment) useSlurm(ctx context.Context, o Options, node *NodeOptions) (err error) {
	fmt.Fprintf(o.Progress, "starting Slurm with %d nodes\n", o.Nodes)
	cluster := slurm.Config{
		Name: o.Name, Nodes: o.Nodes, User: jobUser, NodePrefix: nodePrefix(o), Detach: o.Detach, Progress: o.Progress,
		NoUserNamespaces: o.NoUserNamespaces, REST: o.REST, Cgroup: o.Cgroup,
	}
	if o.Slurm != nil {
		o.Slurm(&cluster)
	}
	if e.Slurm, err = slurm.Start(ctx, cluster); err != nil {
		return err
	}
	var rest *provider.SlurmRESTConfig
	if o.REST {
		if rest, err = e.restConfig(ctx, o.Dir); err != nil {
			return err
		}
	}
	node.Shared, node.UID, node.GID = e.Slurm.SharedDir(), e.Slurm.UID(), e.Slurm.GID()
	node.Home = homeOf(jobUser)
	node.Configure = func(c *provider.Config) {
		c.Cluster = o.Cluster
		c.WorkloadManager = "slurm"
		c.Slurm.Conf, c.Slurm.REST = e.Slurm.SlurmConf(), rest
		c.Partition = "batch"
		if o.Configure != nil {
			o.Configure(c)
		}
	}
	if o.Login {
		return e.useLogin(ctx, o, node)
	}
	return nil
}

// restConfig is the way to slurmrestd, with a token that outlives every test.
func (e *Environment) restConfig(ctx context.Context, dir string) (*provider.SlurmRESTConfig, error) {
	token, err := e.Slurm.Token(ctx, 24*time.Hour)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "slurm.jwt")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(file, []byte(token), 0o600), os.Chown(file, e.Slurm.UID(), e.Slurm.GID())); err != nil {
		return nil, fmt.Errorf("writing slurmrestd's token: %w", err)
	}
	return &provider.SlurmRESTConfig{URL: "unix:" + e.Slurm.RESTSocket(), TokenFile: file}, nil
}

// nodePrefix keeps people's short names where only one cluster runs.
func nodePrefix(o Options) string {
	if o.Detach {
		return "hpc"
	}
	return ""
}

// What each simulated node has where this machine stands for all of them.
const (
	nodeCPUs      = 8
	nodeMemoryMiB = 16384
	nodeGPUs      = 8
)

// useThisMachine makes a directory of this machine the shared filesystem, and an ordinary
// user the jobs'.
func useThisMachine(ctx context.Context, o Options, node *NodeOptions) (err error) {
	node.Shared = filepath.Join(o.Dir, "shared")
	node.UID, node.GID, node.Home = os.Getuid(), os.Getgid(), os.Getenv("HOME")
	if node.UID == 0 {
		// Jobs are an ordinary user's; mpirun, for one, insists on it.
		if node.UID, node.GID, node.Home, err = slurm.EnsureUser(ctx, jobUser); err != nil {
			return err
		}
	}
	return ownDir(node.Shared, node)
}

// ownDir makes a directory of the jobs' user.
func ownDir(dir string, node *NodeOptions) error {
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, node.UID, node.GID)); err != nil {
		return fmt.Errorf("preparing the workload manager: %w", err)
	}
	return nil
}

func useLocal(ctx context.Context, o Options, node *NodeOptions) error {
	if err := useThisMachine(ctx, o, node); err != nil {
		return err
	}
	state := filepath.Join(o.Dir, "local")
	if err := ownDir(state, node); err != nil {
		return err
	}
	node.Configure = func(c *provider.Config) {
		c.Cluster = o.Cluster
		c.WorkloadManager = "local"
		c.Local = provider.LocalConfig{StateDir: state}
		for i := range o.Nodes {
			c.Local.Nodes = append(c.Local.Nodes, provider.LocalNode{
				Name: fmt.Sprintf("local%d", i+1), CPUs: nodeCPUs, MemoryMiB: nodeMemoryMiB, GPUs: nodeGPUs,
			})
		}
		if o.Configure != nil {
			o.Configure(c)
		}
	}
	return nil
}

func homeOf(name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return "/"
	}
	return u.HomeDir
}

// stopTimeout bounds the end of an environment.
const stopTimeout = time.Minute

// Stop ends everything that Start started.
func (e *Environment) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if e.Node != nil {
		keep(e.Node.Stop())
	}
	// The local workload manager's jobs outlive the provider.
	keep(endPrograms(filepath.Join(e.dir, "shared")))
	if e.Flux != nil {
		e.Flux.Stop()
	}
	if e.Login != nil {
		keep(e.Login.Stop())
	}
	if e.Slurm != nil {
		keep(e.Slurm.Stop(ctx))
	}
	if e.Controller != nil {
		keep(e.Controller.Stop())
	}
	if e.ownsControlPlane && e.ControlPlane != nil {
		keep(e.ControlPlane.Stop(ctx))
	}
	return first
}

// Kubectl is short for the control plane's.
func (e *Environment) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return e.ControlPlane.Kubectl(ctx, stdin, args...)
}

// Down ends a detached environment that another run of this program started.
func Down(ctx context.Context, root, dir, name string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for _, programs := range []string{"node", "controller", "shared"} {
		if err := endPrograms(filepath.Join(dir, programs)); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 { // nobody else can have started one
		if err := slurm.Down(ctx, slurm.Dir(name), false); err != nil {
			return err
		}
	}
	if err := (&ControlPlane{bin: filepath.Join(root, "bin"), dir: filepath.Join(dir, "cluster")}).Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the environment's files: %w", err)
	}
	return nil
}
