package preflight

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/wlm"
)

// Sites are the HPC site as each user sees it.
type Sites interface {
	For(ctx context.Context, user string) (site.Site, error)
	// Agent is the path of the agent for a user's jobs, or the fallback.
	Agent(ctx context.Context, user, fallback string) (string, error)
}

// Who is somebody whose gangs run at the site, and what they ask for unless told
// otherwise.
type Who struct {
	User, Account, Partition, QOS string
}

func (w Who) String() string {
	text := "user " + w.User
	for _, wish := range []struct{ what, value string }{{"account", w.Account}, {"partition", w.Partition}, {"QOS", w.QOS}} {
		if wish.value != "" {
			text += ", " + wish.what + " " + wish.value
		}
	}
	return text
}

// Options say what is checked.
type Options struct {
	// Version is the node's.
	Version string
	// API is the API server, APIError why there is none.
	API      API
	APIError error
	Rights   []Right
	Ports    []Port
	// Self is who checks, Remarks what of the configuration may not be what was meant.
	Self    Self
	Remarks []string

	// Manager is the workload manager, ManagerError why there is none; Kind is slurm, flux
	// or local. OneNode tells that all of its nodes are this machine.
	Manager      wlm.Manager
	Kind         string
	ManagerError error
	OneNode      bool
	Wanted       []Wanted

	Sites Sites
	Who   []Who
	// Met is told the number of each user of Who, whose jobs Manager is to list.
	Met func(uid int)
	// Unknown says which users cannot be known beforehand.
	Unknown []string
	// Spool, Agent and Scratch are as in the node's configuration, Directories those that
	// it names for volumes.
	Spool, Agent, Scratch string
	Directories           []string
	// Runtimes are the container runtimes that pods may choose, with their programs.
	Runtimes map[string]string

	// NoJob leaves the job out. Nodes is how many nodes it has, 0 for all that are usable;
	// GPUs how many GPUs on each, below 0 for one where each node has one.
	NoJob       bool
	Nodes, GPUs int
	// Timeout bounds the wait for the job's start.
	Timeout time.Duration
	// Progress is told what is waited for.
	Progress io.Writer
}

const (
	checkJob  = "job"
	checkSite = "site"
)

// Run checks everything. Its error is the context's, with what was found until then; what
// the job needs has been taken away all the same.
func Run(ctx context.Context, o Options) (Report, error) {
	var lines []Line
	say := func(format string, args ...any) { fmt.Fprintf(o.Progress, format+"\n", args...) }
	lines = append(lines, judgeSelf(o.Self))
	for _, text := range o.Remarks {
		lines = append(lines, bad("configuration", "remark", doctor.Warn, "change it, unless it is meant so", "%s", text))
	}
	for _, p := range o.Ports {
		lines = append(lines, checkMachine(ctx, p)...)
	}
	say("asking the API server")
	if o.APIError != nil {
		lines = append(lines, bad(apiServer, checkReach, doctor.Fail, "name a kubeconfig by --kubeconfig, or run in a pod with a ServiceAccount", "%v", o.APIError))
	} else {
		lines = append(lines, checkAPI(ctx, o.API, o.Rights)...)
	}
	say("asking the workload manager, which may take a minute if it is not there")
	found, inv, known := checkManager(ctx, o)
	lines = append(lines, found...)
	for _, text := range o.Unknown {
		lines = append(lines, good("users", checkSite, doctor.Info, "%s", text))
	}
	if o.Self.wrong() {
		lines = append(lines, good("site", checkSite, doctor.Info, "neither the site nor its HPC nodes are checked: see the first line about %s", thisMachine))
		o.Who = nil
	}
	tried := map[string]bool{}
	for _, who := range o.Who {
		p := &probe{options: o, who: who, inventory: inv, say: say}
		if !tried[who.User] {
			tried[who.User] = true
			say("reaching the site as %s", who.User)
			lines = append(lines, p.checkSite(ctx)...)
		}
		switch {
		case o.NoJob:
			lines = append(lines, good(who.String(), checkJob, doctor.Info, "not tried (--no-job): the HPC nodes, the account and the way to the nodes are not checked"))
		case !known || partition(inv, who.Partition) == nil:
			lines = append(lines, good(who.String(), checkJob, doctor.Info, "not tried: the workload manager or the partition is not there"))
		default:
			lines = append(lines, p.run(ctx)...)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return Report{Lines: merge(lines)}, context.Cause(ctx)
}

// managerCures are what helps if a kind of workload manager does not answer.
func managerCures() map[string]string {
	return map[string]string{
		"slurm": "see that its tools work here as the node's user (sinfo, squeue), that its controller runs, and that slurm.bin, slurm.conf or slurm.rest name the right ones",
		"flux":  "see that flux resource list works here as the node's user, and that flux.uri and flux.library name the right ones",
		"local": "make local.stateDir for the node's user, on a disk of this machine",
	}
}

// managerTimeout bounds one question to the workload manager.
const managerTimeout = time.Minute

// checkManager asks for what there is. It reports whether that is known.
func checkManager(ctx context.Context, o Options) ([]Line, wlm.Inventory, bool) {
	cure := managerCures()[o.Kind]
	asking := ctx
	failed := func(err error) ([]Line, wlm.Inventory, bool) {
		if asking.Err() != nil {
			return []Line{bad(workloadManager, checkReach, doctor.Fail, "give it a minute, which is how long Slurm's tools try before they say what is wrong; or run sinfo by hand as the same user",
				"preflight was told to end (%v) before the workload manager had answered", context.Cause(asking))}, wlm.Inventory{}, false
		}
		return []Line{bad(workloadManager, checkReach, doctor.Fail, cure, "%v", err)}, wlm.Inventory{}, false
	}
	if o.ManagerError != nil {
		return failed(o.ManagerError)
	}
	ctx, cancel := context.WithTimeout(ctx, managerTimeout)
	defer cancel()
	name, err := o.Manager.Name(ctx)
	if err != nil {
		return failed(err)
	}
	inv, err := o.Manager.Inventory(ctx)
	if err != nil {
		lines, inv, known := failed(err)
		return append([]Line{judgeVersion(name)}, lines...), inv, known
	}
	lines := []Line{judgeVersion(name), good(workloadManager, checkReach, doctor.OK, "it answers")}
	return append(lines, judgePartitions(inv, o.Wanted)...), inv, true
}

// merge joins the same finding at several places into one line, at the first's place.
func merge(lines []Line) []Line {
	var merged []Line
	at := map[doctor.Finding]int{}
	for _, l := range lines {
		i, there := at[l.Finding]
		if !there || strings.Contains(merged[i].Where, l.Where) {
			if !there {
				at[l.Finding] = len(merged)
				merged = append(merged, l)
			}
			continue
		}
		merged[i].Where += ", " + l.Where
	}
	return merged
}
