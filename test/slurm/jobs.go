package slurm

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

const pollEvery = 100 * time.Millisecond

// Job is one line of squeue.
type Job struct {
	// ID is squeue's job number: "7", "7+1" in a heterogeneous job, "7_1" in an array.
	ID string
	// State is the long name, such as RUNNING; Reason is squeue's.
	State, Reason string
	// Name, User, Partition and Nodes are as submitted and as allocated.
	Name, User, Partition, Nodes string
}

// Command prepares a command outside of the nodes, as the ordinary user in the shared
// folder, that speaks to this cluster. It runs on the caller's side of the network.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := supervisor.FindProgram(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = c.SharedDir()
	cmd.Env = c.user.environ(c.SlurmConf())
	cmd.WaitDelay = outputGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user.credential()}
	return cmd, nil
}

// Run runs Command and returns what it prints, without surrounding space.
func (c *Cluster) Run(ctx context.Context, name string, args ...string) (string, error) {
	return c.runWithInput(ctx, "", name, args...)
}

// Submit gives a batch script to sbatch as the ordinary user and returns the job's number.
func (c *Cluster) Submit(ctx context.Context, script string, args ...string) (string, error) {
	out, err := c.runWithInput(ctx, script, "sbatch", append([]string{"--parsable"}, args...)...)
	id, _, _ := strings.Cut(out, ";")
	return id, err
}

func (c *Cluster) runWithInput(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd, err := c.Command(ctx, name, args...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	if err := cmd.Run(); err != nil {
		return strings.TrimSpace(stdout.String()), fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// Squeue lists all jobs that slurmctld remembers, finished ones too.
func (c *Cluster) Squeue(ctx context.Context) ([]Job, error) {
	out, err := c.Run(ctx, "squeue", "-h", "-a", "-t", "all", "-o", "%i|%T|%r|%j|%u|%P|%N")
	if err != nil {
		return nil, err
	}
	var jobs []Job
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 7 {
			return nil, fmt.Errorf("squeue: unexpected line %q", line)
		}
		jobs = append(jobs, Job{ID: f[0], State: f[1], Reason: f[2], Name: f[3], User: f[4], Partition: f[5], Nodes: f[6]})
	}
	return jobs, nil
}

// Job finds one job.
func (c *Cluster) Job(ctx context.Context, id string) (Job, error) {
	jobs, err := c.Squeue(ctx)
	if err != nil {
		return Job{}, err
	}
	for _, job := range jobs {
		if job.ID == id {
			return job, nil
		}
	}
	return Job{}, fmt.Errorf("no job %s", id)
}

// WaitJob waits until a job is in one of the states.
func (c *Cluster) WaitJob(ctx context.Context, id string, states ...string) (Job, error) {
	var job Job
	err := poll(ctx, func() (bool, string) {
		var err error
		if job, err = c.Job(ctx, id); err != nil {
			return false, err.Error()
		}
		return slices.Contains(states, job.State), fmt.Sprintf("it is %s (%s)", job.State, job.Reason)
	})
	if err != nil {
		return job, fmt.Errorf("wait for job %s to be %s: %w", id, strings.Join(states, " or "), err)
	}
	return job, nil
}

// NodeStates tells the state of every node as sinfo's long form has it: "idle",
// "allocated", "down*".
func (c *Cluster) NodeStates(ctx context.Context) (map[string]string, error) {
	return supervisor.NodeStates(ctx, c.plan)
}

// WaitNode waits until a node is in one of the states.
func (c *Cluster) WaitNode(ctx context.Context, node string, states ...string) error {
	err := poll(ctx, func() (bool, string) {
		now, err := c.NodeStates(ctx)
		if err != nil {
			return false, err.Error()
		}
		return slices.Contains(states, now[node]), "it is " + now[node]
	})
	if err != nil {
		return fmt.Errorf("wait for node %s to be %s: %w", node, strings.Join(states, " or "), err)
	}
	return nil
}

// poll calls done until it says so; Slurm offers no event to wait for.
func poll(ctx context.Context, done func() (bool, string)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, state := done()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ctx.Err(), state)
		case <-tick.C:
		}
	}
}
