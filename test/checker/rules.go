package checker

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is a rule that did not hold.
type Violation struct {
	Rule, What string
}

func (v Violation) String() string { return v.Rule + ": " + v.What }

// rule looks at a history for what must not be.
type rule struct {
	name string
	find func(*index) []string
}

// rules are all that must hold, in the order in which they are told.
func rules() []rule {
	return []rule{
		{"the checker saw something", sawSomething},
		{"a pod runs once", runsOnce},
		{"no two processes are in one place of a gang at once", onePlaceOneProcess},
		{"an allocation has one job", oneJob},
		{"a gang has one allocation at once", oneAllocation},
		{"a pod's end is true", truthfulEnd},
		{"an end is final", finalEnd},
		{"nothing is freed while it runs", freedTooSoon},
		{"every pod came to an end", everyPodEnds},
		{"the site's accounting is true", accounted},
		{"nothing is left", func(h *index) []string { return h.Left }},
	}
}

// Check tells everything that is wrong with a history. None is a proof only as far as the
// history goes; a history of nothing is wrong.
func Check(history History) (violations []Violation) {
	h := newIndex(history)
	for _, r := range rules() {
		for _, what := range r.find(h) {
			violations = append(violations, Violation{Rule: r.name, What: what})
		}
	}
	return violations
}

// index is a history, by what is looked for.
type index struct {
	History
	processesOf map[string][]Process // by pod UID
	podsOf      map[string][]Pod     // by allocation
	jobsOf      map[string][]Job     // by name, which is the allocation's
	claimOf     map[string]string    // by allocation: the job that runs it
	dirOf       map[string]Dir       // by allocation
}

func newIndex(history History) *index {
	h := &index{
		History: history, processesOf: map[string][]Process{}, podsOf: map[string][]Pod{},
		jobsOf: map[string][]Job{}, claimOf: map[string]string{}, dirOf: map[string]Dir{},
	}
	for _, p := range h.Processes {
		h.processesOf[p.Pod] = append(h.processesOf[p.Pod], p)
	}
	for _, p := range h.Pods {
		if a := p.allocation(); a != "" {
			h.podsOf[a] = append(h.podsOf[a], p)
		}
	}
	for _, j := range h.Jobs {
		h.jobsOf[j.Name] = append(h.jobsOf[j.Name], j)
	}
	for _, d := range h.Dirs {
		h.dirOf[d.Allocation] = d
		for _, job := range d.Claims {
			h.claimOf[d.Allocation] = job
		}
	}
	return h
}

func (p Pod) String() string {
	return fmt.Sprintf("pod %s/%s (%s, %s)", p.Namespace, p.Name, p.UID, p.allocation())
}

func runsOnce(h *index) (found []string) {
	for pod, runs := range h.processesOf {
		if len(runs) > 1 {
			found = append(found, fmt.Sprintf("pod %s (%s) began %d times, at %s and %s", pod, runs[0].Slot, len(runs), clock(runs[0].Began), clock(runs[1].Began)))
		}
	}
	slices.Sort(found)
	return found
}

// onePlaceOneProcess looks at the pods that followed one another in a place of a gang.
func onePlaceOneProcess(h *index) (found []string) {
	bySlot := map[string][]Process{}
	for _, p := range h.Processes {
		bySlot[p.Slot] = append(bySlot[p.Slot], p)
	}
	for slot, runs := range bySlot {
		slices.SortFunc(runs, func(a, b Process) int { return a.Began.Compare(b.Began) })
		for i := 1; i < len(runs); i++ {
			before, after := runs[i-1], runs[i]
			if before.Pod != after.Pod && before.over().After(after.Began) {
				found = append(found, fmt.Sprintf("in %s pod %s lived until %s, and pod %s began at %s", slot, before.Pod, clock(before.over()), after.Pod, clock(after.Began)))
			}
		}
	}
	slices.Sort(found)
	return found
}

// truthfulEnd compares what the API says of an end with what the process itself said.
func truthfulEnd(h *index) (found []string) {
	for _, p := range h.Pods {
		s := p.last()
		if !s.terminal() {
			continue
		}
		if wrong := h.untrue(p, s); wrong != "" {
			found = append(found, fmt.Sprintf("%v: %s; the API says %s %s %q", p, wrong, s.Phase, s.Reason, s.Message))
		}
	}
	slices.Sort(found)
	return found
}

// untrue says what is not true about a pod's end, empty if all is.
func (h *index) untrue(p Pod, s Sight) string {
	runs := h.processesOf[p.UID]
	succeeded := s.Phase == "Succeeded"
	// Kubernetes' own garbage collector fails a pod that is being deleted and that no node
	// has taken on.
	if s.Code == nil && !succeeded && len(runs) == 0 && p.allocation() == "" && !p.Deleting.IsZero() {
		return ""
	}
	switch {
	case s.Code == nil && !succeeded && h.orphaned(p, s):
		return ""
	case s.Code == nil:
		return "its container has no exit code"
	case succeeded != (*s.Code == 0):
		return fmt.Sprintf("its exit code is %d", *s.Code)
	case succeeded && len(runs) == 0:
		return "its process never began"
	case succeeded && runs[0].Ended.IsZero():
		return "its process never said that it ends"
	case toldAsNoted(runs, s):
		return ""
	case succeeded:
		return fmt.Sprintf("its process ended with %d", runs[0].Code)
	}
	if h.excuse(p, runs) != "" {
		return ""
	}
	switch {
	case len(runs) == 0:
		return "its process never began, and nobody has harmed it"
	case runs[0].Ended.IsZero():
		return fmt.Sprintf("its process was killed (%d), and nobody has harmed it", *s.Code)
	}
	return fmt.Sprintf("its process ended with %d and not with %d, and nobody has harmed it", runs[0].Code, *s.Code)
}

// toldAsNoted tells whether the API says of an end what the process said.
func toldAsNoted(runs []Process, s Sight) bool {
	return len(runs) > 0 && !runs[0].Ended.IsZero() && s.Code != nil && runs[0].Code == *s.Code
}

// finalEnd: what has ended stays as it is, and no pod that runs waits again.
func finalEnd(h *index) (found []string) {
	for _, d := range h.Dirs {
		if len(d.Outcomes) > 1 {
			found = append(found, fmt.Sprintf("%s ended as %s", d.Allocation, strings.Join(d.Outcomes, ", and then as ")))
		}
	}
	for _, p := range h.Pods {
		for i := 1; i < len(p.Seen); i++ {
			a, b := p.Seen[i-1], p.Seen[i]
			back := a.Phase == "Running" && b.Phase == "Pending"
			again := a.terminal() && (b.Phase != a.Phase || codeOf(a) != codeOf(b))
			if back || again {
				found = append(found, fmt.Sprintf("%v was %s (%s) at %s and %s (%s) at %s", p, a.Phase, codeOf(a), clock(a.At), b.Phase, codeOf(b), clock(b.At)))
			}
		}
	}
	slices.Sort(found)
	return found
}

func codeOf(s Sight) string {
	if s.Code == nil {
		return "no exit code"
	}
	return fmt.Sprint(*s.Code)
}

// freedTooSoon: who is told that a pod has ended, or is gone, may use what it had.
func freedTooSoon(h *index) (found []string) {
	for _, p := range h.Pods {
		free, how := p.Gone, "gone"
		for _, s := range p.Seen {
			if s.terminal() {
				free, how = s.At, s.Phase
				break
			}
		}
		for _, run := range h.processesOf[p.UID] {
			if !free.IsZero() && run.over().After(free) {
				found = append(found, fmt.Sprintf("%v was %s at %s, and lived until %s", p, how, clock(free), clock(run.over())))
			}
			if !free.IsZero() && run.Began.After(free) {
				found = append(found, fmt.Sprintf("%v was %s at %s, and began at %s", p, how, clock(free), clock(run.Began)))
			}
		}
	}
	slices.Sort(found)
	return found
}

func everyPodEnds(h *index) (found []string) {
	for _, p := range h.Pods {
		if s := p.last(); p.Gone.IsZero() && !s.terminal() {
			found = append(found, fmt.Sprintf("%v is still %s %q", p, s.Phase, s.Message))
		}
	}
	slices.Sort(found)
	return found
}

// accounted compares the job's end in the site's accounting with the process's own, where
// an allocation had one pod and nobody harmed it.
func accounted(h *index) (found []string) {
	for allocation, pods := range h.podsOf {
		if len(pods) != 1 || h.harmed(pods[0]) != "" {
			continue
		}
		runs := h.processesOf[pods[0].UID]
		for _, j := range h.jobsOf[allocation] {
			if j.ID != h.claimOf[allocation] || len(runs) != 1 || runs[0].Ended.IsZero() || h.startedAgain(j, runs[0]) || h.endedAgain(j) {
				continue
			}
			if j.Code != runs[0].Code || j.Signal != 0 {
				found = append(found, fmt.Sprintf("%v ended with %d, and job %s with %d:%d (%s)", pods[0], runs[0].Code, j.ID, j.Code, j.Signal, j.State))
			}
		}
	}
	slices.Sort(found)
	return found
}
