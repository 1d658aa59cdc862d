package translate

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// SbatchArgs is sbatch's command line for a request: options, then the batch
// script, then its two arguments, the agent and the gang's directory. Several
// groups become the components of one heterogeneous job. The options follow
// sbatch's manual of Slurm 22.05; every value is one argument together with
// its option, so no value can become another option.
//
// What each slot is promised: its CPUs on one node, at least its memory (Slurm
// counts it per CPU, so it is rounded up to a multiple of the CPUs in MiB), and
// GPUs of its own. Whole nodes come with all of their memory: there Slurm packs
// the slots of a node by CPUs and GPUs alone. Generic resources that are no GPUs are
// counted per node by Slurm, so a slot that asks for some is the only one of its
// gang on its node.
//
// An error names the value that cannot be passed to sbatch.
func SbatchArgs(r Request, script string) ([]string, error) {
	if err := r.checkForSbatch(script); err != nil {
		return nil, err
	}
	args := []string{
		"--parsable",
		"--job-name=" + r.Name,
		"--comment=" + r.Comment,
		"--chdir=" + r.Dir,
		"--output=" + strings.ReplaceAll(filepath.Join(r.Dir, "job.log"), "%", "%%"),
		"--open-mode=append",
		// A gang that has run is never run again by Slurm alone.
		"--no-requeue",
		// Not NONE nor NIL: those make Slurm run the user's login shell on the
		// node. ALL is what sbatch itself was given, which is next to nothing.
		"--export=ALL",
		// The limits of the nodes hold, not those of the provider's own process
		// (locked memory decides whether RDMA works).
		"--propagate=NONE",
	}
	for i, g := range r.Groups {
		if i > 0 {
			args = append(args, ":", "--job-name="+r.Name, "--comment="+r.Comment)
		}
		args = append(args, r.sbatchArgs(i == 0)...)
		args = append(args, g.sbatchArgs(r.Exclusive)...)
	}
	return append(args, script, r.Agent, r.Dir), nil
}

// sbatchArgs are the options of a component that come from the wishes. What is asked
// for once for the whole job is asked for in the first one.
func (r Request) sbatchArgs(first bool) []string {
	var args []string
	option := func(name, value string) {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	option("partition", r.Partition)
	option("account", r.Account)
	option("qos", r.QOS)
	option("constraint", r.Constraint)
	option("reservation", r.Reservation)
	if r.TimeLimit > 0 {
		option("time", strconv.FormatInt(wholeMinutes(r.TimeLimit), 10))
	}
	if r.Exclusive {
		args = append(args, "--exclusive")
	}
	if first {
		option("licenses", r.Licenses)
		option("dependency", r.Dependency)
	}
	option("switches", r.Switches.String())
	option("nodes", r.NodeRange())
	if r.Nice > 0 {
		option("nice", strconv.Itoa(r.Nice))
	}
	option("wckey", r.WCKey)
	for _, f := range r.Flags {
		args = append(args, f.String())
	}
	return args
}

// NodeRange is the value of sbatch's --nodes, "" for none. A number alone would be the
// most as well as the least.
func (r Request) NodeRange() string {
	if r.MinNodes == 0 && r.MaxNodes == 0 {
		return ""
	}
	most := r.MaxNodes
	if most == 0 {
		for _, g := range r.Groups {
			most += g.Tasks
		}
	}
	return fmt.Sprintf("%d-%d", max(r.MinNodes, 1), most)
}

func (g TaskGroup) sbatchArgs(exclusive bool) []string {
	args := []string{
		fmt.Sprintf("--ntasks=%d", g.Tasks),
		fmt.Sprintf("--cpus-per-task=%d", g.CPUs),
		// Rank order follows the order of the nodes.
		"--distribution=block",
	}
	switch cpus := int64(g.CPUs); {
	case exclusive:
		// Per CPU would count the node's unused CPUs as well, and refuse a
		// slot that fits well.
		args = append(args, "--mem=0")
	case g.MemoryMiB > 0:
		args = append(args, fmt.Sprintf("--mem-per-cpu=%dM", (g.MemoryMiB+cpus-1)/cpus))
	}
	if gpus := g.GPUsPerTask(); gpus != "" {
		args = append(args, "--gpus-per-task="+gpus)
	}
	if _, others := g.Gres.Split(); others != "" {
		args = append(args, "--gres="+string(others), "--ntasks-per-node=1")
	}
	return args
}

func (r Request) checkForSbatch(script string) error {
	for _, v := range []struct{ what, value string }{
		{"name", r.Name}, {"comment", r.Comment}, {"partition", r.Partition}, {"account", r.Account}, {"QOS", r.QOS},
		{"constraint", r.Constraint}, {"reservation", r.Reservation}, {"licenses", r.Licenses},
		{"wckey", r.WCKey}, {"dependency", r.Dependency}, {"batch script's path", script},
		{"agent's path", r.Agent}, {"directory", r.Dir},
	} {
		if strings.ContainsFunc(v.value, unicode.IsControl) {
			return fmt.Errorf("the %s %q has a control character, which sbatch cannot take; remove it", v.what, v.value)
		}
	}
	for _, v := range []struct{ what, path string }{
		{"batch script's path", script}, {"agent's path", r.Agent}, {"directory", r.Dir},
	} {
		if !filepath.IsAbs(v.path) {
			return fmt.Errorf("the %s %q is not absolute, and the job starts in another directory", v.what, v.path)
		}
	}
	if strings.Contains(r.Dir, `\`) {
		// It would switch off the patterns of --output, the escaping of % included.
		return fmt.Errorf("the directory %q has a backslash, which sbatch does not take in --output; use another spool", r.Dir)
	}
	if r.Name == "" {
		return errors.New("the request has no name, by which its job could be found again")
	}
	if len(r.Groups) == 0 {
		return errors.New("the request asks for no task")
	}
	if r.NodeRange() != "" && len(r.Groups) > 1 {
		return errors.New("the number of nodes (min-nodes, max-nodes) cannot be chosen for pods of unequal size: they are parts of a heterogeneous job; " +
			"give all the same requests, or leave it out")
	}
	if n := r.Groups[0].Tasks; r.MinNodes > n {
		return fmt.Errorf("min-nodes is %d, and the gang has only %d pods that need a place", r.MinNodes, n)
	}
	for i, g := range r.Groups {
		if g.Tasks < 1 || g.CPUs < 1 || g.MemoryMiB < 0 || g.GPUs < 0 {
			return fmt.Errorf("group %d asks for %d tasks of %d CPUs, %d MiB and %d GPUs; it takes at least one task of one CPU",
				i, g.Tasks, g.CPUs, g.MemoryMiB, g.GPUs)
		}
	}
	return nil
}
