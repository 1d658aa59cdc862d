package simulator

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

// Options say what is simulated. The zero value of a field has the default that it names.
type Options struct {
	// Seed is what latencies and failures are drawn from.
	Seed uint64
	// Nodes is the number of HPC nodes (default 4), sim1 and so on. Node is what each has.
	Nodes int
	Node  NodeShape
	// Partition is the only partition's name. Default "batch".
	Partition string
	// User is whose all jobs are.
	User string
	// Latency is how long things take.
	Latency Latency
	// Failures are how often things fail by themselves. Default: never.
	Failures Failures
	// Look is how often an agent looks at its files while it waits for something, and
	// Idle while it does not. Defaults: 50 ms and 1 s.
	Look, Idle time.Duration
	// Remember is how long an ended job is listed. Default: 5 minutes, as with Slurm's
	// MinJobAge.
	Remember time.Duration
	// Behave says what becomes of a container. Default: ByCommand.
	Behave func(spool.ContainerOrders) Behaviour
	// Logger takes what goes wrong in the simulator itself. Default: none.
	Logger *slog.Logger
}

// NodeShape is one HPC node. Defaults: 128 CPUs, 512 GiB, no GPU.
type NodeShape struct {
	CPUs      int
	MemoryMiB int64
	GPUs      int
}

// Latency is how long things take. Each is at most that and at least half of it, as the
// seed has it; 0 is no time.
type Latency struct {
	// Submit, List and Cancel are the workload manager's answers.
	Submit, List, Cancel time.Duration
	// Start is from a job's place on nodes until its launcher runs, Agent from there until
	// an agent's first report, Pod from orders until the containers run, Stop from the
	// wish to stop until they have ended.
	Start, Agent, Pod, Stop time.Duration
}

// Failures are probabilities, from 0 to 1.
type Failures struct {
	// Submit is of a submission that fails and leaves no job, Unanswered of one whose job
	// is taken though the answer says that it failed.
	Submit, Unanswered float64
	// Refuse is of a submission that is understood and refused.
	Refuse float64
	// List and Cancel are of such a call.
	List, Cancel float64
	// Node, Agents, Preempt and Forget are of a job whose HPC node fails, whose agents are
	// killed, that is preempted, or that the workload manager forgets while it goes on.
	Node, Agents, Preempt, Forget float64
	// Within is the longest time after a job's launch until one of these comes; 0 for at once.
	Within time.Duration
}

// Behaviour is what becomes of a container.
type Behaviour struct {
	// Runs is how long it runs; below 0 until it is stopped.
	Runs     time.Duration
	ExitCode int32
}

// ByCommand is the default of Options.Behave. "sleep SECONDS" and "true" end well after
// their time, "false" and "exit CODE" end at once with their code, "exit CODE SECONDS" after
// a time, and everything else runs until it is stopped.
func ByCommand(c spool.ContainerOrders) Behaviour {
	forever := Behaviour{Runs: -1}
	if len(c.Argv) == 0 {
		return forever
	}
	argument, after := "", time.Duration(0)
	if len(c.Argv) > 1 {
		argument = c.Argv[1]
	}
	if len(c.Argv) > 2 {
		var ok bool
		if after, ok = inSeconds(c.Argv[2]); !ok {
			return forever
		}
	}
	switch c.Argv[0] {
	case "true":
		return Behaviour{}
	case "false":
		return Behaviour{ExitCode: 1}
	case "exit":
		code, err := strconv.ParseUint(argument, 10, 8)
		if err != nil {
			return forever
		}
		return Behaviour{Runs: after, ExitCode: int32(code)} //nolint:gosec // eight bits
	case "sleep":
		if runs, ok := inSeconds(argument); ok {
			return Behaviour{Runs: runs}
		}
	}
	return forever
}

// inSeconds reads a time of up to a year.
func inSeconds(text string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(text, 64)
	ok := err == nil && seconds >= 0 && seconds <= (365*24*time.Hour).Seconds()
	return time.Duration(seconds * float64(time.Second)), ok
}

func (o Options) withDefaults() (Options, error) {
	o.Nodes = cmp.Or(o.Nodes, 4)
	o.Node.CPUs = cmp.Or(o.Node.CPUs, 128)
	o.Node.MemoryMiB = cmp.Or(o.Node.MemoryMiB, 512<<10)
	o.Partition = cmp.Or(o.Partition, "batch")
	o.Look = cmp.Or(o.Look, 50*time.Millisecond)
	o.Idle = cmp.Or(o.Idle, time.Second)
	o.Remember = cmp.Or(o.Remember, 5*time.Minute)
	if o.Behave == nil {
		o.Behave = ByCommand
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for name, p := range map[string]float64{
		"Submit": o.Failures.Submit, "Unanswered": o.Failures.Unanswered, "List": o.Failures.List,
		"Refuse": o.Failures.Refuse, "Cancel": o.Failures.Cancel, "Node": o.Failures.Node, "Agents": o.Failures.Agents,
		"Preempt": o.Failures.Preempt, "Forget": o.Failures.Forget,
	} {
		if p < 0 || p > 1 {
			return o, fmt.Errorf("failures.%s is a probability from 0 to 1, not %v", name, p)
		}
	}
	if o.Nodes < 1 || o.Look < 0 || o.Idle < 0 {
		return o, fmt.Errorf("%d nodes, looks each %v and %v: all must be above 0", o.Nodes, o.Look, o.Idle)
	}
	return o, nil
}
