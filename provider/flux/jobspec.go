package flux

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/translate"
)

// jobIDVariable is how an agent learns its job's id: in ASCII, whatever the locale of
// Flux's shell.
const jobIDVariable = "GANGLINE_JOB_ID"

// nodeVariable is how an agent learns its node's name as Flux has it.
const nodeVariable = "GANGLINE_NODE"

// killWaitVariable is how an agent learns how long it has from SIGTERM to SIGKILL.
const killWaitVariable = "GANGLINE_KILL_WAIT"

// setting is what of an instance and of the caller a jobspec depends on.
type setting struct {
	env       map[string]string
	hasQueues bool // else the only partition is none of Flux's
}

// newJobspec is a request as Flux is asked for it: one slot per task, each of which runs
// an agent. Flux gives all slots of a job the same: where the request's groups differ,
// each slot gets the most that any asks for.
//
// An error names the wish that Flux does not know.
func newJobspec(r translate.Request, s setting) (flux.Jobspec, error) {
	if err := check(r); err != nil {
		return flux.Jobspec{}, err
	}
	slots, err := slotsOf(r)
	if err != nil {
		return flux.Jobspec{}, err
	}
	// Flux fills in templates in arguments, which is how the job's id and the node's name
	// come in. env is run as it is, without a shell.
	spec := flux.NewJobspec(slots, "/usr/bin/env", jobIDVariable+"={{id.f58plain}}", nodeVariable+"={{node.name}}", r.Agent, "serve", r.Dir)
	spec.SetName(r.Name)
	if r.TimeLimit < translate.NoTimeLimit {
		spec.SetDuration(r.TimeLimit)
	}
	spec.AppendOutput(filepath.Join(r.Dir, "job.log")) // a duplicate must not overwrite it
	// An agent that fails ends all, and one that has done its work none.
	spec.SetShellOption("exit-on-error", 1)
	spec.SetShellOption("exit-timeout", "none")
	spec.SetShellOption("gpu-affinity", "per-task")
	spec.SetShellOption("cpu-affinity", "per-task")
	// The slots are no MPI job: their pods start ranks themselves.
	spec.SetShellOption("pmi", "off")
	spec.Attributes.User = map[string]any{"gangline": map[string]string{"comment": r.Comment}}
	system := &spec.Attributes.System
	system.Cwd = r.Dir
	system.Environment = s.env
	system.Bank = r.Account
	switch {
	case s.hasQueues:
		system.Queue = r.Partition
	case r.Partition != "" && r.Partition != onlyPartition:
		return flux.Jobspec{}, fmt.Errorf("there is no queue %q: this instance has none", r.Partition)
	}
	if system.Constraints, err = constraint(r.Constraint); err != nil {
		return flux.Jobspec{}, err
	}
	system.Dependencies, err = dependencies(r.Dependency)
	return spec, err
}

// check refuses what Flux has nothing for.
func check(r translate.Request) error {
	for _, wish := range []struct{ what, value string }{
		{"QOS", r.QOS}, {"reservation", r.Reservation}, {"licenses", r.Licenses},
		{"number of switches", r.Switches.String()}, {"workload characterization key", r.WCKey},
	} {
		if wish.value != "" {
			return fmt.Errorf("the %s %q cannot be asked of Flux; do without", wish.what, wish.value)
		}
	}
	if len(r.Flags) > 0 {
		return fmt.Errorf("%s is for Slurm and cannot be asked of Flux; do without", r.Flags[0])
	}
	for _, path := range []string{r.Agent, r.Dir} {
		if !filepath.IsAbs(path) || strings.Contains(path, "{{") {
			return fmt.Errorf("the path %q must be absolute and without \"{{\", which Flux would fill in", path)
		}
	}
	for _, g := range r.Groups {
		if g.Tasks < 1 || g.CPUs < 1 || g.GPUs < 0 {
			return fmt.Errorf("a group of %d tasks of %d CPUs and %d GPUs makes no sense", g.Tasks, g.CPUs, g.GPUs)
		}
		if g.Gres != "" {
			return fmt.Errorf("there is no %q; Flux knows GPUs of no type: choose nodes by a property", g.Gres)
		}
	}
	return nil
}

func slotsOf(r translate.Request) (flux.Slots, error) {
	s := flux.Slots{Exclusive: r.Exclusive}
	for _, g := range r.Groups {
		s.Count += g.Tasks
		s.Cores, s.GPUs = max(s.Cores, g.CPUs), max(s.GPUs, g.GPUs)
	}
	switch spread := r.MinNodes > 0 || r.MaxNodes > 0; {
	case s.Count == 0:
		return s, fmt.Errorf("the request asks for no task")
	case spread && (r.MinNodes != r.MaxNodes || s.Count%r.MinNodes != 0):
		return s, fmt.Errorf("%d pods on at least %d and at most %s nodes cannot be asked of Flux: it takes one number of nodes, each of which gets as many pods as the others; set gangline.dev/min-nodes and max-nodes to that number",
			s.Count, r.MinNodes, most(r.MaxNodes))
	case r.Exclusive && !spread:
		return s, fmt.Errorf("whole nodes can be asked of Flux only together with their number: set gangline.dev/min-nodes and max-nodes to it")
	}
	s.Nodes = r.MinNodes
	return s, nil
}

// most is a greatest number, 0 being none.
func most(n int) string {
	if n == 0 {
		return "any number of"
	}
	return strconv.Itoa(n)
}

// constraint reads names of properties, all of which nodes must have: "a&b", "^a" for
// nodes that do not have it.
func constraint(text string) (flux.Constraint, error) {
	if text == "" {
		return nil, nil
	}
	names := strings.FieldsFunc(text, func(r rune) bool { return r == '&' || r == ',' })
	if len(names) == 0 || strings.ContainsAny(text, "|()[]*<>\"' \t") {
		return nil, fmt.Errorf("the constraint %q cannot be asked of Flux; give names of nodes' properties, with & between them", text)
	}
	return flux.Properties(names...), nil
}

// dependencies reads sbatch's form, "afterok:ID:ID,afterany:ID".
func dependencies(text string) ([]flux.Dependency, error) {
	var all []flux.Dependency
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		scheme, ids, _ := strings.Cut(part, ":")
		for id := range strings.SplitSeq(ids, ":") {
			if _, err := flux.ParseJobID(id); err != nil {
				return nil, fmt.Errorf("the dependency %q: %w", part, err)
			}
			all = append(all, flux.Dependency{Scheme: scheme, Value: id})
		}
	}
	return all, nil
}

// urgency is Flux's for a niceness: one less for each.
func urgency(nice int) int { return max(1, flux.UrgencyDefault-max(nice, 0)) }

// killWait is what an agent gets of the time that Flux leaves the job.
func killWait(timeout time.Duration) time.Duration {
	const margin, least = 2 * time.Second, time.Second
	return max(timeout-margin, least)
}
