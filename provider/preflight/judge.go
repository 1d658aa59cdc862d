package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/wlm"
)

const (
	checkWay    = "SSH from here"
	checkClaims = "claims"
	checkLocks  = "locks between nodes"
)

// facts is all that was gathered of one job of doctors.
type facts struct {
	who, id, agent, dir string
	job                 wlm.Job
	tasks               int
	hellos              map[int]doctor.Hello
	calls               map[int]called
	reports             map[int]doctor.Report
	log                 string
}

// name is what task t's node is called.
func (f facts) name(t int) string {
	if r, ok := f.reports[t]; ok && r.Node != "" {
		return r.Node
	}
	if h, ok := f.hellos[t]; ok {
		return h.Agent.Node
	}
	return fmt.Sprintf("task %d of job %s", t, f.id)
}

// judgeJob judges a job of doctors. trouble is why not all was heard, empty if it was.
func judgeJob(f facts, trouble string) []Line {
	lines := []Line{f.judgeEnd(trouble)}
	for t := range f.tasks {
		lines = append(lines, f.judgeTask(t)...)
	}
	return append(lines, f.together()...)
}

// judgeEnd is the line about the job as a whole.
func (f facts) judgeEnd(trouble string) Line {
	job := fmt.Sprintf("job %s", f.id)
	if f.job.Nodes != "" {
		job += " on " + f.job.Nodes
	}
	state := f.job.State
	if f.job.Reason != "" && f.job.Reason != "None" {
		state += " (" + f.job.Reason + ")"
	}
	heard := len(f.reports)
	switch {
	case heard == f.tasks:
		return good(f.who, checkJob, doctor.OK, "%s ran, and all its %d nodes have reported", job, f.tasks)
	case trouble == "queued":
		text := fmt.Sprintf("%s has not started in time: it is %s", job, state)
		if f.job.Explanation != "" {
			text += ": " + f.job.Explanation
		}
		return bad(f.who, checkJob, doctor.Fail, "wait longer (--timeout), ask for less (--nodes, --gpus), or for another partition (--partition)", "%s", text)
	case trouble == "interrupted":
		return good(f.who, checkJob, doctor.Info, "%s was cancelled, as preflight was told to end", job)
	case strings.Contains(f.log, f.agent) && len(f.hellos) == 0:
		return bad(f.who, checkJob, doctor.Fail, "set agent in the node's configuration to the path of gangline-agent on the HPC nodes, where the user may run it",
			"%s is %s; %s cannot be run there: %s", job, state, f.agent, lastLine(f.log))
	case f.log == "" && heard == 0:
		return bad(f.who, checkJob, doctor.Fail, "mount the spool's filesystem on all HPC nodes, at the same path",
			"%s is %s without a word: the node on which its script starts, the first one, cannot write to %s", job, state, f.dir)
	}
	text := fmt.Sprintf("%s is %s, and %d of %d nodes have reported", job, state, heard, f.tasks)
	if last := lastLine(f.log); last != "" {
		text += "; its log ends with: " + last
	}
	return bad(f.who, checkJob, doctor.Fail, "see what is said of the nodes, and the workload manager's logs on those that are missing", "%s", text)
}

// judgeTask is what one node says, and how it answered.
func (f facts) judgeTask(t int) []Line {
	var lines []Line
	name := f.name(t)
	report, reported := f.reports[t]
	for _, finding := range report.Findings {
		lines = append(lines, Line{name, finding})
	}
	call, asked := f.calls[t]
	switch {
	case !asked && reported:
		lines = append(lines, noClock(name, "the node could not say in the spool where it can be asked"))
	case !asked:
	case call.err != nil:
		h := f.hellos[t]
		lines = append(lines,
			bad(name, checkWay, doctor.Fail, "let this machine (or the login node, in the mode ssh) reach the HPC nodes' unprivileged TCP ports; kubectl exec, attach and port-forward go there",
				"its SSH service at %s:%d cannot be reached: %v", h.Agent.Address, h.Agent.SSHPort, call.err),
			noClock(name, "its SSH service cannot be reached"))
	default:
		lines = append(lines, good(name, checkWay, doctor.OK, "its SSH service answers, so kubectl exec, attach and port-forward can"), judgeClock(name, call.clock))
	}
	return lines
}

// together is what the nodes say only all together.
func (f facts) together() []Line {
	if len(f.hellos) < 2 || len(f.reports) < f.tasks {
		return nil
	}
	holders, unlocked := []string{}, []string{}
	for t := range f.tasks {
		if f.reports[t].Claimed {
			holders = append(holders, f.name(t))
		}
		if held := f.reports[t].LockHeld; held != nil && !*held {
			unlocked = append(unlocked, f.name(t))
		}
	}
	slices.Sort(unlocked)
	var lines []Line
	if len(holders) != 1 {
		lines = append(lines, bad(f.who, checkClaims, doctor.Fail, "use a filesystem for the spool on which making a hard link is atomic (NFS, Lustre, GPFS, BeeGFS with links switched on)",
			"a claim that one node only can have was taken by %d: %s", len(holders), strings.Join(holders, ", ")))
	} else {
		lines = append(lines, good(f.who, checkClaims, doctor.OK, "of all nodes one only got the claim"))
	}
	if len(unlocked) > 0 {
		return append(lines, bad(f.who, checkLocks, doctor.Warn, "set lock in the node's configuration to a file on a local filesystem of the machine where jobs are submitted",
			"a lock of one node does not hold on %s", some(unlocked)))
	}
	return append(lines, good(f.who, checkLocks, doctor.OK, "a lock of one node holds on the others"))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	const most = 400
	last := lines[len(lines)-1]
	return last[:min(len(last), most)]
}
