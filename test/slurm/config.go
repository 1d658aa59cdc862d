package slurm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gangline/gangline/test/slurm/internal/plan"
	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

// The defaults of Config.
const (
	DefaultName     = "dev"
	DefaultUser     = "hpcuser"
	DefaultNodes    = 4
	DefaultCPUs     = 8
	DefaultMemoryMB = 16384
	DefaultGPUs     = 8
	// DefaultMinJobAge is Slurm's own default, in seconds.
	DefaultMinJobAge = 300
	// NoGPUs as Config.GPUs makes nodes without GPUs.
	NoGPUs = -1

	baseDir = "/var/lib/gangline-dev/slurm"
)

// Config says what cluster to start. The zero value is a cluster of the default size.
type Config struct {
	// Name tells clusters on one machine apart.
	Name string
	// Dir holds the cluster's files. It must not lie under /tmp or /dev/shm,
	// which are private on every node. By default it follows from the name.
	Dir string
	// Nodes, CPUs, MemoryMB and GPUs size the cluster; the last three are per node.
	// Slurm believes them whatever the machine really has.
	Nodes, CPUs, MemoryMB, GPUs int
	// User is the ordinary user that runs jobs and owns the shared folder. It is created
	// if it does not exist, with number UID if that is not 0, and is never removed.
	User string
	UID  int
	// NodePrefix is the part of a node's name before its number: "hpc" in the cluster of
	// the default name, "<name>-hpc" in others.
	NodePrefix string
	// Cgroup makes Slurm track jobs and limit their memory with cgroup v1.
	Cgroup bool
	// NoUserNamespaces keeps jobs from making user namespaces, as some sites do.
	NoUserNamespaces bool
	// REST runs slurmrestd too; see Cluster.RESTSocket, RESTAddr and Token.
	REST bool
	// Accounting keeps jobs in a database (slurmdbd and MariaDB), so that sacct works.
	// The start takes some seconds more.
	Accounting bool
	// MinJobAge is for how many seconds slurmctld remembers a job that has ended; 300
	// if it is 0.
	MinJobAge int
	// Detach lets the cluster outlive this program.
	Detach bool
	// Progress, if set, gets a line of text for each step of the start.
	Progress io.Writer
}

// Dir is the directory of the cluster called name.
func Dir(name string) string { return filepath.Join(baseDir, cmp.Or(name, DefaultName)) }

// resolve fills in the defaults and checks the result. It does not look at the user.
func (c Config) resolve() (plan.Plan, error) {
	p := plan.Plan{
		Name:     cmp.Or(c.Name, DefaultName),
		Dir:      c.Dir,
		Nodes:    cmp.Or(c.Nodes, DefaultNodes),
		CPUs:     cmp.Or(c.CPUs, DefaultCPUs),
		MemoryMB: cmp.Or(c.MemoryMB, DefaultMemoryMB),
		GPUs:     cmp.Or(c.GPUs, DefaultGPUs),
		User:     cmp.Or(c.User, DefaultUser),
		UID:      c.UID,
		Cgroup:   c.Cgroup,

		REST: c.REST, Accounting: c.Accounting, MinJobAge: cmp.Or(c.MinJobAge, DefaultMinJobAge),
		NoUserNamespaces: c.NoUserNamespaces,
		Detach:           c.Detach,
	}
	p.Dir = cmp.Or(p.Dir, Dir(p.Name))
	p.NodePrefix = c.NodePrefix
	if p.NodePrefix == "" {
		p.NodePrefix = "hpc"
		if p.Name != DefaultName {
			p.NodePrefix = p.Name + "-hpc"
		}
	}
	if c.GPUs == NoGPUs {
		p.GPUs = 0
	}
	var err error
	if p.Dir, err = realDir(p.Dir); err != nil {
		return p, err
	}
	return p, errors.Join(
		checkName("name", p.Name), checkName("node prefix", p.NodePrefix), checkName("user", p.User),
		checkRange("nodes", p.Nodes, 1, plan.MaxNodes), checkRange("CPUs per node", p.CPUs, 1, 1024),
		checkRange("memory per node in MB", p.MemoryMB, 64, 16<<20), checkRange("GPUs per node", p.GPUs, 0, 128),
		checkRange("seconds that ended jobs are remembered", p.MinJobAge, 2, 1<<20),
		checkDir(p.Dir),
	)
}

func checkName(what, name string) error {
	if !regexp.MustCompile(`^[a-z]([a-z0-9-]{0,22}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("%s %q: must be up to 24 lower-case letters, digits and inner dashes, a letter first", what, name)
	}
	return nil
}

func checkRange(what string, n, low, high int) error {
	if n < low || n > high {
		return fmt.Errorf("%s: %d is not between %d and %d", what, n, low, high)
	}
	return nil
}

// realDir resolves links in the part of dir that exists.
func realDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("make %s absolute: %w", dir, err)
	}
	rest := ""
	for at := dir; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("resolve %s: %w", dir, err)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func checkDir(dir string) error {
	const longest = 80 // a socket's path is at most 107 bytes long
	if len(dir) > longest {
		return fmt.Errorf("directory %s: longer than %d bytes", dir, longest)
	}
	if strings.ContainsAny(dir, " \t\n,#\"'\\%[]") {
		return fmt.Errorf("directory %q: has a character that Slurm's configuration cannot hold", dir)
	}
	for _, private := range []string{"/tmp", "/dev", "/proc", "/sys"} {
		if dir == private || strings.HasPrefix(dir, private+"/") {
			return fmt.Errorf("directory %s: lies under %s, which is private on every node", dir, private)
		}
	}
	return nil
}

// checkMachine says what keeps a cluster from running here.
func checkMachine(p plan.Plan) error {
	if os.Geteuid() != 0 {
		return errors.New("the dev Slurm makes namespaces and network links: it needs root (sudo)")
	}
	if err := supervisor.CheckPrograms(p); err != nil {
		return err
	}
	if p.Cgroup {
		return supervisor.CheckCgroups()
	}
	return nil
}
