package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Head is the host name of the machine that runs slurmctld and munged.
const Head = "head"

// Plan is a cluster with every default filled in. It is handed to the
// supervisor, and saved so that other programs can attach to the cluster.
type Plan struct {
	// Name tells clusters on one machine apart.
	Name string
	// Dir holds all files of the cluster.
	Dir string
	// NodePrefix is the part of a node's name before its number.
	NodePrefix string
	// Nodes, CPUs, MemoryMB and GPUs size the cluster; the last three are per node.
	Nodes, CPUs, MemoryMB, GPUs int
	// User is the ordinary user that owns the shared directory.
	User string
	// UID and GID are the numbers of User.
	UID, GID int
	// Cgroup tracks and limits jobs with cgroups.
	Cgroup bool
	// MinJobAge is for how many seconds slurmctld remembers ended jobs.
	MinJobAge int
	// REST runs slurmrestd beside slurmctld, with tokens (JWT) as its authentication.
	REST bool
	// Accounting keeps jobs in a database: MariaDB and slurmdbd.
	Accounting bool
	// NoUserNamespaces keeps what Slurm starts from making user namespaces.
	NoUserNamespaces bool
	// Detach lets the cluster outlive the program that started it.
	Detach bool
	// Subnet is K in 10.77.K.0/24. The supervisor fills it in.
	Subnet int
}

// NodeName is the host name of node i, counted from 1.
func (p Plan) NodeName(i int) string { return fmt.Sprintf("%s%d", p.NodePrefix, i) }

// NodeNames lists all nodes in order.
func (p Plan) NodeNames() []string {
	names := make([]string, 0, p.Nodes)
	for i := 1; i <= p.Nodes; i++ {
		names = append(names, p.NodeName(i))
	}
	return names
}

// NodeNumber finds a node by its name, or returns 0.
func (p Plan) NodeNumber(name string) int {
	for i := 1; i <= p.Nodes; i++ {
		if p.NodeName(i) == name {
			return i
		}
	}
	return 0
}

// Save writes the plan into the cluster's directory, whole or not at all.
func (p Plan) Save() error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	draft := p.path(DraftFile)
	if err := os.WriteFile(draft, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if err := os.Rename(draft, p.PlanFile()); err != nil {
		return fmt.Errorf("save the plan: %w", err)
	}
	return nil
}

// Load reads the plan that Save wrote into dir.
func Load(dir string) (Plan, error) {
	var p Plan
	data, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return p, fmt.Errorf("no dev Slurm in %s: %w", dir, err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("read the plan in %s: %w", dir, err)
	}
	return p, nil
}
