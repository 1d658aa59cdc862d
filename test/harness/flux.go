package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/flux/fluxtest"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/slurm"
)

// A real Flux instance takes the double's place where both of these are set. docs/flux.md
// says how it must be started.
const (
	FluxURIVariable     = "GANGLINE_E2E_FLUX_URI"
	FluxLibraryVariable = "GANGLINE_FLUX_LIBRARY"
)

// Flux is an instance: a real one that was there before, or the double.
type Flux struct {
	// Broker is the double, nil for a real instance.
	Broker *fluxtest.Broker
	URI    string
	// Library is the path of libflux-core.
	Library string
}

// useFlux finds the real instance, or starts the double with nodes that are processes on
// this machine.
func (e *Environment) useFlux(ctx context.Context, o Options, node *NodeOptions) error {
	if err := useThisMachine(ctx, o, node); err != nil {
		return err
	}
	e.Flux = &Flux{URI: os.Getenv(FluxURIVariable), Library: os.Getenv(FluxLibraryVariable)}
	if e.Flux.URI == "" || e.Flux.Library == "" {
		if err := e.Flux.startDouble(filepath.Join(o.Dir, "flux"), o.Nodes, fluxtest.User{UID: node.UID, GID: node.GID}); err != nil {
			return err
		}
	}
	node.Configure = func(c *provider.Config) {
		c.Cluster = o.Cluster
		c.WorkloadManager = "flux"
		c.Flux = provider.FluxConfig{URI: e.Flux.URI, Library: e.Flux.Library, NodeMemoryMiB: nodeMemoryMiB}
		if o.Configure != nil {
			o.Configure(c)
		}
	}
	return nil
}

func (f *Flux) startDouble(dir string, nodes int, owner fluxtest.User) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("preparing the double of Flux: %w", err)
	}
	if f.Library, err = fluxtest.Library(dir); err != nil {
		return err
	}
	cfg := fluxtest.Config{Dir: dir, Owner: &owner, KillTimeout: 5 * time.Second} // Flux's own
	addresses := map[string]string{}
	for i := range nodes {
		name := fmt.Sprintf("flux%d", i+1)
		cfg.Nodes = append(cfg.Nodes, fluxtest.Node{Name: name, Cores: nodeCPUs, GPUs: nodeGPUs, Properties: []string{name}})
		addresses[name] = fmt.Sprintf("127.0.%d.1", i+1)
	}
	network := hasNetwork()
	cfg.TaskEnv = func(node string) []string {
		if network { // by which MPI's ranks meet
			return nil
		}
		return []string{"GANGLINE_ADDRESS=" + addresses[node]}
	}
	if f.Broker, err = fluxtest.Start(cfg); err != nil {
		return err
	}
	f.URI = f.Broker.URI()
	return nil
}

// hasNetwork tells whether this machine has an address that is not the loopback's.
func hasNetwork() bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return true
		}
	}
	return false
}

// Jobs lists all jobs of the instance in the form of Squeue's.
func (f *Flux) Jobs(ctx context.Context) ([]slurm.Job, error) {
	all, err := f.list(ctx)
	if err != nil {
		return nil, err
	}
	var jobs []slurm.Job
	for _, j := range all {
		state := j.State.String()
		if j.State == flux.StateInactive {
			state = j.Result.String()
		}
		jobs = append(jobs, slurm.Job{ID: j.ID.Plain(), Name: j.Name, State: state, Nodes: j.NodeList})
	}
	return jobs, nil
}

// ExitCode is that of a job that has ended.
func (f *Flux) ExitCode(ctx context.Context, id string) (int, error) {
	all, err := f.list(ctx)
	if err != nil {
		return 0, err
	}
	for _, j := range all {
		if j.ID.Plain() == id && j.Started {
			return j.Status.Code(), nil
		}
	}
	return 0, fmt.Errorf("job %s has not ended", id)
}

func (f *Flux) list(ctx context.Context) ([]flux.Job, error) {
	h, err := flux.Open(ctx, f.URI, flux.Options{Library: f.Library})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return h.Jobs(ctx, flux.Query{})
}

// Stop ends the double, its jobs included. A real instance is left alone.
func (f *Flux) Stop() {
	if f.Broker != nil {
		f.Broker.Close()
	}
}

// errNoJobs is of a workload manager whose jobs cannot be listed here.
var errNoJobs = errors.New("the jobs of the local workload manager are not listed")

// Jobs lists the workload manager's jobs as it sees them itself.
func (e *Environment) Jobs(ctx context.Context) ([]slurm.Job, error) {
	switch {
	case e.Slurm != nil:
		return e.Slurm.Squeue(ctx)
	case e.Flux != nil:
		return e.Flux.Jobs(ctx)
	}
	return nil, errNoJobs
}

// Kind is the workload manager for people.
func (e *Environment) Kind() string {
	switch {
	case e.Slurm != nil:
		return "Slurm"
	case e.Flux != nil:
		return "Flux"
	}
	return "local"
}

// OneMachine tells that this machine stands for all HPC nodes: they share its address.
func (e *Environment) OneMachine() bool { return e.Slurm == nil }

// SharedDir is the filesystem that all HPC nodes see.
func (e *Environment) SharedDir() string { return e.node.Shared }
