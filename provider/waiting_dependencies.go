package provider

import (
	"fmt"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// dependencyInterval is the time between two looks at the gangs that another waits for
// while they have no job.
const dependencyInterval = 2 * time.Second

// gatherDependencies finds the jobs of the gangs that this one wishes to follow. While
// one of them has none, the gang is not submitted, and its pods say for what it waits.
func (r *Reconciler) gatherDependencies(s *state) {
	s.dependency, s.awaits = "", ""
	if len(s.wishes.DependsOn) == 0 {
		return
	}
	s.dependency, s.awaits = resolveDependencies(s.wishes.DependsOn, func(d translate.Dependency) []predecessor {
		var found []predecessor
		for _, each := range r.family.registries {
			found = append(found, each.predecessors(d, s.gang.Namespace, s.key)...)
		}
		return found
	})
	if s.awaits != "" {
		s.within(dependencyInterval)
	}
}

// predecessor is a gang that another waits for: its newest allocation.
type predecessor struct {
	itself bool   // it is the gang that waits
	job    string // the job's number, "" while it has none
	// outcome is how it ended, "" while it has not.
	outcome string
}

// predecessors are the gangs that a dependency means.
func (r *registry) predecessors(d translate.Dependency, namespace, self string) []predecessor {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []predecessor
	for key, list := range r.byGang {
		a := list[len(list)-1]
		if !d.IsOf(a.gang.Owner, namespace) {
			continue
		}
		p := predecessor{itself: key == self}
		if a.ended != nil {
			p.outcome = a.ended.Outcome
		}
		if a.job != nil {
			p.job = a.job.ID
		}
		found = append(found, p)
	}
	return found
}

// resolveDependencies is the value of sbatch's --dependency for what is not satisfied
// yet, or what has to be waited for before there can be one. Jobs that have ended are
// not left to the workload manager: it forgets them soon, and then takes no job that
// depends on them.
func resolveDependencies(wishes []translate.Dependency, find func(translate.Dependency) []predecessor) (option, awaits string) {
	jobs := map[string][]string{}
	var types []string
	for _, d := range wishes {
		found := find(d)
		if len(found) == 0 {
			return "", fmt.Sprintf("it depends on %s/%s, of which there is no job yet in the namespace", d.Kind, d.Name)
		}
		for _, p := range found {
			switch {
			case p.itself:
				return "", fmt.Sprintf("it depends on %s/%s, which is itself: it never starts; correct the annotation", d.Kind, d.Name)
			case p.outcome != "" && !satisfied(d.Type, p.outcome):
				return "", fmt.Sprintf("it depends on %s/%s (%s), which has ended in another way (%s): it starts when that has run again and ended so",
					d.Kind, d.Name, d.Type, strings.ToLower(p.outcome))
			case p.outcome != "":
			case p.job == "":
				return "", fmt.Sprintf("it depends on %s/%s, which is not submitted yet", d.Kind, d.Name)
			default:
				if jobs[d.Type] == nil {
					types = append(types, d.Type)
				}
				jobs[d.Type] = append(jobs[d.Type], p.job)
			}
		}
	}
	var parts []string
	for _, t := range types {
		parts = append(parts, t+":"+strings.Join(jobs[t], ":"))
	}
	return strings.Join(parts, ","), ""
}

// satisfied tells whether a job that ended so is what a dependency of a type waits for.
func satisfied(kind, outcome string) bool {
	completed := outcome == string(wlm.OutcomeCompleted)
	return map[string]bool{"afterok": completed, "afternotok": !completed, "afterany": true, "after": true}[kind]
}
