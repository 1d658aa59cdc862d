package local

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// The defaults of Config.
const (
	DefaultPartition = "local"
	// DefaultGrace is the time between SIGTERM and SIGKILL for a job that must
	// end, as Slurm's KillWait.
	DefaultGrace = 5 * time.Second
	// DefaultRetention is how long an ended job is listed, as Slurm's MinJobAge.
	DefaultRetention = 5 * time.Minute
)

// NodeSpec is one simulated node.
type NodeSpec struct {
	Name      string
	CPUs      int
	MemoryMiB int64
	GPUs      int
	// Address is the IP by which the node's agents are reached. By default the
	// i-th node of the list, counted from 1, has 127.0.i.1, which every Linux
	// answers.
	Address string
}

// Config describes the cluster. Another manager may take over its StateDir, with
// the same nodes or others.
type Config struct {
	// StateDir is made if it does not exist. It must be on a local filesystem.
	StateDir string
	Nodes    []NodeSpec
	// Partition is the name of the only one; DefaultPartition if empty.
	Partition string
	// Grace and Retention are DefaultGrace and DefaultRetention if zero.
	Grace, Retention time.Duration
	// Env is added to the agents' environment, as "name=value".
	Env []string
	// Log is slog.Default() if nil.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	c.Partition = cmp.Or(c.Partition, DefaultPartition)
	c.Grace = cmp.Or(c.Grace, DefaultGrace)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.Log = cmp.Or(c.Log, slog.Default())
	if !filepath.IsAbs(c.StateDir) {
		return c, fmt.Errorf("the state directory %q is not an absolute path", c.StateDir)
	}
	if len(c.Nodes) == 0 {
		return c, errors.New("the cluster has no node; name at least one")
	}
	names := map[string]bool{}
	nodes := make([]NodeSpec, 0, len(c.Nodes))
	for i, n := range c.Nodes {
		if n.Name == "" || names[n.Name] {
			return c, fmt.Errorf("node %d is called %q; each node needs a name of its own", i+1, n.Name)
		}
		if n.CPUs < 1 || n.MemoryMiB < 0 || n.GPUs < 0 {
			return c, fmt.Errorf("node %s has %d CPUs, %d MiB and %d GPUs; it needs a CPU, and nothing below 0",
				n.Name, n.CPUs, n.MemoryMiB, n.GPUs)
		}
		names[n.Name] = true
		number := i + 1
		n.Address = cmp.Or(n.Address, fmt.Sprintf("127.%d.%d.1", number>>8, number&0xff))
		nodes = append(nodes, n)
	}
	c.Nodes = nodes
	return c, nil
}
