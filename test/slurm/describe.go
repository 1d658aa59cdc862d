package slurm

import (
	"strconv"
	"strings"
)

// Head is the name of the machine that runs slurmctld; Exec takes it as well as a node.
const Head = "head"

// Name is the cluster's name.
func (c *Cluster) Name() string { return c.plan.Name }

// Dir is the folder with the cluster's files and logs.
func (c *Cluster) Dir() string { return c.plan.Dir }

// SharedDir is the shared filesystem. It belongs to User and has the same path on the
// head, on the nodes and outside.
func (c *Cluster) SharedDir() string { return c.plan.SharedDir() }

// SlurmConf is the value of SLURM_CONF.
func (c *Cluster) SlurmConf() string { return c.plan.SlurmConf() }

// User is the ordinary user that jobs run as.
func (c *Cluster) User() string { return c.plan.User }

// UID and GID are the numbers of User.
func (c *Cluster) UID() int { return c.plan.UID }

// GID is the main group of User.
func (c *Cluster) GID() int { return c.plan.GID }

// Nodes are the names of the nodes, in Slurm's order.
func (c *Cluster) Nodes() []string { return c.plan.NodeNames() }

// Addr is the address of a node or of the head, or "" if there is no such machine.
func (c *Cluster) Addr(name string) string {
	if name == Head {
		return c.plan.HeadAddr()
	}
	if i := c.plan.NodeNumber(name); i > 0 {
		return c.plan.NodeAddr(i)
	}
	return ""
}

// OutsideAddr is where the nodes reach this program's network namespace. Servers for them
// must listen there or on all addresses.
func (c *Cluster) OutsideAddr() string { return c.plan.RootAddr() }

// LogFile is the path of a daemon's log: "slurmctld", "slurmd.<node>", "supervisor".
func (c *Cluster) LogFile(daemon string) string { return c.plan.LogFile(daemon + ".log") }

// Env describes the cluster as KEY=value lines; Slurm's commands need only SLURM_CONF.
func (c *Cluster) Env() []string {
	addrs := make([]string, 0, c.plan.Nodes)
	for _, name := range c.Nodes() {
		addrs = append(addrs, c.Addr(name))
	}
	return []string{
		"SLURM_CONF=" + c.SlurmConf(),
		"DEVSLURM_NAME=" + c.Name(),
		"DEVSLURM_DIR=" + c.Dir(),
		"DEVSLURM_SHARED=" + c.SharedDir(),
		"DEVSLURM_USER=" + c.User(),
		"DEVSLURM_UID=" + strconv.Itoa(c.UID()),
		"DEVSLURM_GID=" + strconv.Itoa(c.GID()),
		"DEVSLURM_HEAD_ADDR=" + c.Addr(Head),
		"DEVSLURM_OUTSIDE_ADDR=" + c.OutsideAddr(),
		"DEVSLURM_NODES=" + strings.Join(c.Nodes(), ","),
		"DEVSLURM_NODE_ADDRS=" + strings.Join(addrs, ","),
	}
}
