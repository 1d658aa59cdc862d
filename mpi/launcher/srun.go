package launcher

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Srun starts steps of Slurm.
type Srun struct{}

// Command is srun's command line; see srun(1). Its options in words:
//   - the step shares the resources of the job with the agents, which have them
//     all (--overlap), and takes none of its own: a rank has those of its pod, so
//     no GPUs (--gres=none), no memory (--mem=0) and any number of tasks on a
//     node (--overcommit);
//   - each rank goes to the node that the layout says (--distribution=arbitrary
//     with a file that has a line a task);
//   - the first rank that fails ends all, one that ends well none (--wait=0).
//
// A step of a heterogeneous job has a part for each component that takes part;
// its ranks are numbered across all (--het-group).
func (Srun) Command(s Step) Command {
	var c Command
	c.Argv = []string{"srun", "--jobid=" + s.JobID}
	parts := componentsOf(s.Ranks)
	for i, component := range parts {
		if i > 0 {
			c.Argv = append(c.Argv, ":")
		}
		if s.Components > 1 {
			c.Argv = append(c.Argv, "--het-group="+strconv.Itoa(component))
		}
		hosts := File{Path: filepath.Join(s.Scratch, "hosts."+strconv.Itoa(component))}
		var nodes strings.Builder
		tasks := 0
		for _, r := range s.Ranks {
			if r.Pod.Component == component {
				fmt.Fprintln(&nodes, r.Pod.Node)
				tasks++
			}
		}
		hosts.Data = nodes.String()
		c.Files = append(c.Files, hosts)
		c.Argv = append(c.Argv,
			"--overlap", "--overcommit", "--gres=none", "--mem=0",
			"--ntasks="+strconv.Itoa(tasks),
			"--distribution=arbitrary", "--nodelist="+hosts.Path,
			"--kill-on-bad-exit=1", "--wait=0",
			"--mpi="+s.PMI, "--input="+input(s.Stdin, i), "--export=ALL",
			"--job-name=mpirun",
		)
		if s.Label {
			c.Argv = append(c.Argv, "--label")
		}
		if !s.Verbose {
			c.Argv = append(c.Argv, "--quiet") // what it says unasked; errors come all the same
		}
		c.Argv = append(c.Argv, s.Program, "rank", s.Spool)
	}
	return c
}

// Check refuses steps in which ranks would wait for each other for ever. Slurm's PMIx plugin
// numbers the nodes of a heterogeneous step in two ways: as its components name them, one
// after the other, and sorted. Where the two differ it asks the wrong nodes (seen in Slurm
// 22.05, whatever SLURM_PMIX_DIRECT_CONN and SLURM_PMIX_FENCE say).
func (Srun) Check(s Step) error {
	if !SpeaksPMIx(s.PMI) {
		return nil
	}
	before := ""
	for _, component := range componentsOf(s.Ranks) {
		last := before
		for _, r := range s.Ranks {
			if r.Pod.Component != component {
				continue
			}
			if before != "" && compareNodes(r.Pod.Node, before) < 0 {
				return fmt.Errorf("pods of different resources are parts of one Slurm job, and Slurm's PMIx hangs where their nodes are not in order, as here (%s before %s); "+
					"use the annotation gangline.dev/mpi-launch: ssh, or give all pods of the gang the same resources", before, r.Pod.Node)
			}
			if last == "" || compareNodes(r.Pod.Node, last) > 0 {
				last = r.Pod.Node
			}
		}
		before = last
	}
	return nil
}

// compareNodes orders names of nodes as Slurm does: by what is before their numbers, then
// by the numbers.
func compareNodes(a, b string) int {
	stem := func(name string) string { return strings.TrimRight(name, "0123456789") }
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(name[len(stem(name)):], 10, 64) // 0 for none
		return n
	}
	return cmp.Or(strings.Compare(stem(a), stem(b)), cmp.Compare(number(a), number(b)))
}

// componentsOf lists the components that ranks are on, in order.
func componentsOf(ranks []Rank) []int {
	var all []int
	for _, r := range ranks {
		if !slices.Contains(all, r.Pod.Component) {
			all = append(all, r.Pod.Component)
		}
	}
	slices.Sort(all)
	return all
}

// input is who reads standard input: rank 0 is the first of the first part.
func input(stdin string, part int) string {
	switch {
	case stdin != "":
		return stdin
	case part == 0:
		return "0"
	}
	return "none"
}
