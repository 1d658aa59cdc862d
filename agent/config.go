package agent

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/provider/spool"
)

// Config is where and as what an agent runs.
type Config struct {
	Dir  spool.Dir
	Task int
	// JobID is the workload manager's id of the job.
	JobID string
	// Node is the HPC node's name, Address its IP as others reach it.
	Node    string
	Address string
	// Runtime is a directory in memory, Scratch one on the node's disk. Both
	// are the agent's own.
	Runtime string
	Scratch string
	// ScratchRule is the site's rule for Scratch's parent (see spool.Gang), by which jobs
	// before this one may have left something. Serve sets it.
	ScratchRule string
	// Self is this program's file, Program its version.
	Self    string
	Program string
	// User and Home are the user's name and home directory.
	User, Home string
	// Devices are the variables by which the workload manager tells this task
	// which devices it may use.
	Devices map[string]string
	// PrivateRoot says why pods cannot have private roots, nil if they can.
	PrivateRoot error
	// KillWait bounds what pods get to end when the workload manager ends the
	// job: soon afterwards it kills everything, and the end must be reported
	// before.
	KillWait time.Duration
	// Unlaunched tells that no launcher sees how the agents end: the workload manager has
	// started them itself, and takes the job's exit code from theirs.
	Unlaunched bool
	// Steps is the workload manager's way to start steps, nil if it has none.
	Steps  StepStarter
	Pace   watch.Pace
	Logger *slog.Logger
}

// Variables of the agent's environment.
const (
	envTask       = "GANGLINE_TASK"
	envJobID      = "GANGLINE_JOB_ID"
	envNode       = "GANGLINE_NODE"
	envAddress    = "GANGLINE_ADDRESS"
	envRuntimeDir = "GANGLINE_RUNTIME_DIR"
	envManager    = "GANGLINE_WLM"
	envKillWait   = "GANGLINE_KILL_WAIT"

	managerLocal = "local"

	envSlurmJob  = "SLURM_JOB_ID"
	envSlurmTask = "SLURM_PROCID"
	envFluxTask  = "FLUX_TASK_RANK"
)

// The default suits Slurm's default KillWait of 30 s.
const (
	defaultKillWait = 25 * time.Second
	minKillWait     = time.Second
)

// FromEnvironment completes the configuration of an agent that serves the
// directory from its environment. A task below 0 is asked from there too.
func FromEnvironment(dir string, task int, env func(string) string) (Config, error) {
	c := Config{
		Dir:     spool.Dir(dir),
		Task:    task,
		JobID:   JobID(env),
		User:    env("USER"),
		Home:    env("HOME"),
		Devices: device.FromEnvironment(env),
		Pace:    watch.DefaultPace,
	}
	var err error
	if c.Task < 0 {
		if c.Task, err = taskOf(env); err != nil {
			return Config{}, err
		}
	}
	if c.JobID == "" {
		return Config{}, fmt.Errorf("the job's id is not known: neither SLURM_JOB_ID nor FLUX_JOB_ID nor %s is set", envJobID)
	}
	// A Flux before 0.70 leaves {{node.name}} as it is.
	if c.Node = firstSet(env, "SLURMD_NODENAME", envNode); c.Node == "" || strings.Contains(c.Node, "{{") {
		if c.Node, err = os.Hostname(); err != nil {
			return Config{}, fmt.Errorf("asking the node's name: %w", err)
		}
	}
	if c.Self, err = os.Executable(); err != nil {
		return Config{}, fmt.Errorf("finding this program's file: %w", err)
	}
	if c.Runtime = env(envRuntimeDir); c.Runtime == "" {
		c.Runtime = filepath.Join("/dev/shm", own())
	}
	if c.Scratch = env("TMPDIR"); c.Scratch == "" {
		c.Scratch = "/tmp"
	}
	c.Scratch = filepath.Join(c.Scratch, own())
	if c.KillWait, err = killWait(env(envKillWait)); err != nil {
		return Config{}, err
	}
	c.Unlaunched = env(envFluxTask) != "" && env(envSlurmTask) == ""
	if env(envSlurmJob) != "" {
		c.Steps = launcher.Srun{}
	}
	c.fillUser()
	c.Address, err = ownAddress(c.Node, env, hostNetwork{})
	return c, err
}

// bound is the binding of a slot of so many devices.
func (c Config) bound(devices int) device.Binding {
	if c.Unlaunched {
		return device.Share(devices, c.Devices)
	}
	return device.Bound(devices, c.Devices)
}

// fillUser asks the system for what the environment does not tell. The user may
// be known to the workload manager only.
func (c *Config) fillUser() {
	if u, err := user.Current(); err == nil {
		c.User, c.Home = cmp.Or(c.User, u.Username), cmp.Or(c.Home, u.HomeDir)
	}
	c.Home = cmp.Or(c.Home, "/")
}

// JobID is the id of the job that an environment belongs to, "" for none. The
// launcher's word comes first: in a heterogeneous job Slurm's id differs between
// components.
func JobID(env func(string) string) string {
	return firstSet(env, envJobID, "SLURM_JOB_ID", "FLUX_JOB_ID")
}

func killWait(text string) (time.Duration, error) {
	if text == "" {
		return defaultKillWait, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", envKillWait, err)
	}
	return max(wait, minKillWait), nil
}

func taskOf(env func(string) string) (int, error) {
	text := firstSet(env, envSlurmTask, envFluxTask, envTask)
	if text == "" {
		return 0, fmt.Errorf("the task's number is not known: neither %s nor %s nor %s is set; give --task", envSlurmTask, envFluxTask, envTask)
	}
	task, err := strconv.Atoi(text)
	if err != nil || task < 0 {
		return 0, fmt.Errorf("the task's number %q is none", text)
	}
	return task, nil
}

func firstSet(env func(string) string, names ...string) string {
	for _, name := range names {
		if value := env(name); value != "" {
			return value
		}
	}
	return ""
}
