package slurm

import (
	"path"
	"strings"
)

// Reason explains reasons of Slurm's: why a job waits, or why it failed.
type Reason struct {
	// Pattern is a reason as Slurm writes it; * stands for any part of one.
	Pattern string
	// Meaning says what it means and what helps, as part of a sentence.
	Meaning string
}

// Reasons is the table of reasons; the first that fits counts. Source:
// https://slurm.schedmd.com/job_reason_codes.html and Slurm's own list of names.
func Reasons() []Reason {
	const (
		release = "release it with \"scontrol release\""
		wait    = "it starts by itself when others of the same account, user or QOS have ended"
		smaller = "ask for less, or for another QOS or account"
	)
	return []Reason{
		// The queue's ordinary course.
		{"Priority", "jobs with a higher priority are before it"},
		{"Resources", "it is next, and waits for resources to become free"},
		{"Dependency", "it waits for another job that it depends on"},
		{"DependencyNeverSatisfied", "the job that it depends on has ended in another way, so it never starts: delete the gang"},
		{"BeginTime", "it may not start before a time that was asked for, or that follows from its being requeued"},
		{"Prolog", "the nodes' prolog runs"},
		{"SchedDefer", "the scheduler looks at it later, as the site has configured"},
		{"Cleaning", "what it left behind when it ran before is still being cleaned up"},
		{"Licenses", "it waits for licenses that others have"},
		{"NvidiaImexChannels", "it waits for a free NVIDIA IMEX channel"},
		{"MpiPortsBusy", "the ports that it needs are in use on its nodes"},
		{"JobArrayTaskLimit", "as many tasks of its array run as may run at a time"},
		{"FedJobLock", "the clusters of the federation are agreeing on who runs it"},
		{"DeadLine", "it cannot end before its deadline any more: delete the gang"},
		{"MaxPoweredUpNodes", "as many nodes are switched on as may be: it waits for others to end"},
		{"BurstBuffer*", "it waits for the burst buffer"},
		{"Power*", "it waits for electrical power"},

		// Holds.
		{"JobHeldUser", "its own user holds it: " + release},
		{"JobHeldAdmin", "an administrator holds it, or its priority is 0: ask the site's support to release it"},
		{"launch_failed_requeued_held", "it could not be started on a node and is held: look after the node (sinfo -R), then " + release +
			", or delete the gang"},
		{"job_requeued_in_held_state", "it was requeued and is held: " + release + ", or delete the gang"},
		{"JobHoldMaxRequeue", "it was requeued too often and is held: " + release + ", or delete the gang"},
		{"ReservationDeleted", "its reservation was deleted and it is held: name another reservation or none, in a new gang"},
		{"ReservationInvalid", "its reservation can no longer be used: name another or none, in a new gang"},

		// Nodes, partitions, reservations.
		{"ReqNodeNotAvail*", "nodes that it needs are down, drained or reserved (sinfo -R): it starts when they come back"},
		{"Reservation", "it waits for its reservation to begin, or to have room"},
		{"PartitionNodeLimit", "it asks for more nodes than the partition allows, or for nodes that are down: ask for fewer, or for another partition"},
		{"PartitionTimeLimit", "its time limit is longer than the partition allows: ask for less time, or for another partition"},
		{"PartitionDown", "the partition is closed: it starts when the site opens it"},
		{"PartitionInactive", "the partition is inactive: it starts when the site activates it"},
		{"PartitionConfig", "the partition does not allow such a job: ask for another partition"},
		{"FrontEndDown", "no front end node can start it"},
		{"NodeDown", "a node of it went down"},
		{"BadConstraints", "no node can ever satisfy what it asks for: change the request, in a new gang"},
		{"Constraints", "no node that is up satisfies what it asks for"},
		{"Block*", "the block of nodes that it needs cannot be booted"},

		// Who may run what.
		{"InvalidAccount", "the account may not be used: name another, in a new gang"},
		{"InvalidQOS", "the QOS may not be used: name another, in a new gang"},
		{"AccountNotAllowed", "the partition does not take this account: name another account or partition, in a new gang"},
		{"QOSNotAllowed", "the partition or the account does not take this QOS: name another, in a new gang"},
		{"AccountingPolicy", "a limit of the accounting keeps it waiting"},
		{"QOSUsageThreshold", "the account or user has used too much for this QOS: name another, or wait for the usage to decay"},

		// Limits. What one job asks for is too much, and will be.
		{"*PerJob", "it asks for more than one job may have: " + smaller},
		{"*PerJobLimit", "it asks for more than one job may have: " + smaller},
		{"*PerNode", "it asks for more on one node than it may have there: " + smaller},
		{"QOSMin*", "it asks for less than its QOS takes: ask for more, or for another QOS"},
		{"MaxMemPerLimit", "it asks for more memory per CPU or node than is allowed: " + smaller},
		{"QOSTimeLimit", "its QOS has no time left for it: " + wait},
		{"AssociationTimeLimit", "its account has no time left for it: " + wait},
		// What all have together is too much, for now.
		{"*RunMinutes", "the jobs that run have all the minutes that may be in use: " + wait},
		{"*Minutes", "its account, user or QOS has not enough minutes left: ask for less time, or for another account"},
		{"*CPUMinutesLimit", "its account or QOS has no CPU minutes left: ask for another account"},
		{"*CPURunMinutesLimit", "the jobs that run have all the CPU minutes that may be in use: " + wait},
		{"*RunMinsPerUser", "the user's jobs have all the minutes that may be in use: " + wait},
		{"*RunMinsPerAccount", "the account's jobs have all the minutes that may be in use: " + wait},
		{"*PerUser", "the user has as much as one user may have: " + wait},
		{"*PerUserLimit", "the user has as much as one user may have: " + wait},
		{"*PerAccount", "the account has as much as one account may have: " + wait},
		{"QOSGrp*", "all jobs of its QOS together have as much as they may: " + wait},
		{"AssocGrp*", "all jobs of its account together have as much as they may: " + wait},
		{"QOSJobLimit", "its QOS runs as many jobs as it may: " + wait},
		{"QOSResourceLimit", "its QOS has as much as it may: " + wait},
		{"AssociationJobLimit", "its account runs as many jobs as it may: " + wait},
		{"AssociationResourceLimit", "its account has as much as it may: " + wait},
		{"AssocMax*", "its account or user has as much as it may: " + wait},

		// Ends.
		{"NonZeroExitCode", "a process ended with another exit code than 0"},
		{"RaisedSignal*", "a signal ended it"},
		{"JobLaunchFailure", "it could not be started, or its script was killed: the node's slurmd.log says more"},
		{"SystemFailure", "Slurm itself failed"},
		{"TimeLimit", "it reached its time limit: ask for more time, or write checkpoints"},
		{"InactiveLimit", "it was idle for longer than the site allows"},
		{"OutOfMemory", "it used more memory than it had asked for: ask for more"},
	}
}

// Explain says what a reason means and what helps, or nothing where it is not known.
// squeue puts what slurmctld itself wrote beside a reason, spaces and all, in the
// reason's place.
func Explain(reason string) string {
	reason = strings.ReplaceAll(strings.Trim(reason, "()"), " ", "_")
	name, _, _ := strings.Cut(reason, ",") // ReqNodeNotAvail, UnavailableNodes:hpc[1-2]
	for _, r := range Reasons() {
		if ok, err := path.Match(r.Pattern, name); err == nil && ok {
			return r.Meaning
		}
	}
	return ""
}
