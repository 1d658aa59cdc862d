package fluxtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/gangline/gangline/flux"
)

// attributes are what job-list tells of a job. What is not known yet is not there.
func (j *job) attributes() map[string]any {
	system := j.spec.Attributes.System
	all := map[string]any{
		"userid": j.broker.uid, "urgency": j.urgency, "priority": j.urgency, "state": j.state, "name": j.name,
		"cwd": system.Cwd, "ntasks": j.shape.total(), "ncores": j.shape.total() * j.shape.cores, "duration": system.Duration,
		"exception_occurred": j.exception != nil,
	}
	for name, value := range map[string]string{"queue": system.Queue, "bank": system.Bank} {
		if value != "" {
			all[name] = value
		}
	}
	for name, state := range map[string]flux.State{
		"t_submit": flux.StateNew, "t_depend": flux.StateDepend, "t_priority": flux.StatePriority, "t_sched": flux.StateSched,
		"t_run": flux.StateRun, "t_cleanup": flux.StateCleanup, "t_inactive": flux.StateInactive,
	} {
		if at, ok := j.reached[state]; ok {
			all[name] = seconds(at)
		}
	}
	if x := j.exception; x != nil {
		all["exception_type"], all["exception_severity"], all["exception_note"] = x.Type, x.Severity, x.Note
	}
	if len(j.places) > 0 {
		var hosts []string
		var ranks []int
		for _, p := range j.places {
			hosts, ranks = append(hosts, p.node.Name), append(ranks, p.node.rank)
		}
		all["nnodes"], all["nodelist"], all["ranks"] = len(hosts), strings.Join(hosts, ","), idset(ranks)
		all["expiration"] = seconds(j.expires)
	}
	if j.state == flux.StateInactive {
		all["result"], all["success"] = j.result(), j.result() == flux.Completed
	}
	if j.finished {
		all["waitstatus"] = j.status
	}
	return all
}

func (j *job) entry(wanted []string) map[string]any {
	all := j.attributes()
	entry := map[string]any{"id": j.id}
	if slices.Contains(wanted, "all") {
		for name, value := range all {
			entry[name] = value
		}
		return entry
	}
	for _, name := range wanted {
		if value, ok := all[name]; ok {
			entry[name] = value
		}
	}
	return entry
}

func (b *Broker) list(text []byte) (any, error) {
	in, err := read[struct {
		Max        int      `json:"max_entries"`
		Attributes []string `json:"attrs"`
		Since      float64
		Constraint json.RawMessage
	}](text)
	if err != nil {
		return nil, err
	}
	jobs := slices.Clone(b.jobs)
	slices.SortStableFunc(jobs, func(x, y *job) int {
		return cmp.Or(cmp.Compare(rankOf(x.state), rankOf(y.state)), cmp.Compare(y.id, x.id))
	})
	entries := []map[string]any{}
	for _, j := range jobs {
		if in.Max > 0 && len(entries) == in.Max {
			break
		}
		if j.state == flux.StateInactive && seconds(j.reached[flux.StateInactive]) < in.Since {
			continue
		}
		matches, err := j.matches(in.Constraint)
		if err != nil {
			return nil, err
		}
		if matches {
			entries = append(entries, j.entry(in.Attributes))
		}
	}
	return map[string]any{"jobs": entries}, nil
}

// rankOf puts those that wait first, and those that are over last.
func rankOf(s flux.State) int {
	return slices.IndexFunc([]flux.State{flux.StateNew | flux.StatesPending, flux.StatesRunning, flux.StateInactive},
		func(set flux.State) bool { return s&set != 0 })
}

func (b *Broker) listID(text []byte) (any, error) {
	in, err := read[struct {
		ID         flux.JobID
		Attributes []string `json:"attrs"`
	}](text)
	if err != nil {
		return nil, err
	}
	j := b.find(in.ID)
	if j == nil {
		return nil, refuse(syscall.ENOENT, "No such file or directory")
	}
	return map[string]any{"job": j.entry(in.Attributes)}, nil
}

// matches evaluates a condition on jobs. RFC 31 and 43.
func (j *job) matches(constraint json.RawMessage) (bool, error) {
	if len(constraint) == 0 || string(constraint) == "null" {
		return true, nil
	}
	var c map[string][]json.RawMessage
	if err := json.Unmarshal(constraint, &c); err != nil || len(c) > 1 {
		return false, refuse(syscall.EPROTO, "invalid payload: constraint object is malformed")
	}
	for operator, operands := range c {
		return j.matchesOne(operator, operands)
	}
	return true, nil
}

func (j *job) matchesOne(operator string, operands []json.RawMessage) (bool, error) {
	// Of and: all match; of or, and of what compares: any does; of not: none.
	any, all := false, true
	for _, operand := range operands {
		match, err := j.compare(operator, operand)
		if err != nil {
			return false, err
		}
		any, all = any || match, all && match
	}
	switch operator {
	case "and":
		return all, nil
	case "not":
		return !any, nil
	}
	return any, nil
}

func (j *job) compare(operator string, operand json.RawMessage) (bool, error) {
	var number int
	var word string
	if json.Unmarshal(operand, &number) != nil && json.Unmarshal(operand, &word) != nil && operator != "and" && operator != "or" && operator != "not" {
		return false, refuse(syscall.EPROTO, "invalid payload: %s has an operand %s", operator, operand)
	}
	switch operator {
	case "and", "or", "not":
		return j.matches(operand)
	case "userid":
		return number == j.broker.uid, nil
	case "name":
		match, err := path.Match(word, j.name)
		if err != nil {
			return false, refuse(syscall.EPROTO, "%v", err)
		}
		return match, nil
	case "queue":
		return word == j.spec.Attributes.System.Queue, nil
	case "states":
		return flux.State(number)&j.state != 0, nil
	case "results":
		return j.state == flux.StateInactive && flux.Outcome(number)&j.result() != 0, nil
	}
	return false, refuse(syscall.EPROTO, "invalid payload: %s", fmt.Sprintf("unknown constraint operator: %s", operator))
}
