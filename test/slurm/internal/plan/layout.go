package plan

import (
	"fmt"
	"path/filepath"
)

const (
	planFile = "cluster.json"
	// DraftFile is the plan while it is being written.
	DraftFile = planFile + ".new"
)

// Entries are the names that a cluster creates in its directory; nothing else
// in it is ever removed.
func Entries() []string {
	return []string{
		planFile, DraftFile, "lock", "control.sock", "etc", "munge", "state", "spool", "pid", "log", "dev", "nodes", "shared",
		"jwt", "run", "db",
	}
}

func (p Plan) path(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// PlanFile is where Save writes.
func (p Plan) PlanFile() string { return p.path(planFile) }

// LockFile is locked for as long as the supervisor lives.
func (p Plan) LockFile() string { return p.path("lock") }

// ControlSocket is where the supervisor takes orders.
func (p Plan) ControlSocket() string { return p.path("control.sock") }

// SlurmConf is the only setting that Slurm's commands need.
func (p Plan) SlurmConf() string { return p.path("etc", "slurm.conf") }

// HostsFile is what nodes see as /etc/hosts.
func (p Plan) HostsFile() string { return p.path("etc", "hosts") }

// ResolvFile is what nodes see as /etc/resolv.conf.
func (p Plan) ResolvFile() string { return p.path("etc", "resolv.conf") }

// EtcFile is a file beside slurm.conf.
func (p Plan) EtcFile(name string) string { return p.path("etc", name) }

// MungeDir belongs to munge's user alone.
func (p Plan) MungeDir() string { return p.path("munge") }

// MungeSocket is how every daemon and command authenticates.
func (p Plan) MungeSocket() string { return p.path("munge", "munge.sock") }

// JWTKey is the key that slurmctld signs and checks tokens with.
func (p Plan) JWTKey() string { return p.path("jwt", "jwt_hs256.key") }

// RESTSocket is slurmrestd's, open to every user: a token is needed all the same.
func (p Plan) RESTSocket() string { return p.path("run", "rest", "slurmrestd.sock") }

// DatabaseDir and DatabaseSocket are MariaDB's.
func (p Plan) DatabaseDir() string { return p.path("db") }

// DatabaseSocket lets in Slurm's own user alone.
func (p Plan) DatabaseSocket() string { return p.path("run", "db", "db.sock") }

// StateDir is where slurmctld saves its state.
func (p Plan) StateDir() string { return p.path("state") }

// PIDDir holds the daemons' pid files.
func (p Plan) PIDDir() string { return p.path("pid") }

// SpoolDir is slurmd's; one folder per node.
func (p Plan) SpoolDir() string { return p.path("spool") }

// LogDir holds one log per daemon.
func (p Plan) LogDir() string { return p.path("log") }

// LogFile is the log of one daemon.
func (p Plan) LogFile(name string) string { return p.path("log", name) }

// GPUDevice is the device file of GPU i; all nodes share it.
func (p Plan) GPUDevice(i int) string { return p.path("dev", fmt.Sprintf("nvidia%d", i)) }

// NodeFile is a private file of one machine.
func (p Plan) NodeFile(node, name string) string { return p.path("nodes", node, name) }

// SharedDir is the shared filesystem: the same path on the head, on every node
// and outside, owned by the ordinary user.
func (p Plan) SharedDir() string { return p.path("shared") }
