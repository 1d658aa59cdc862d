package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// oneJob: a second job of an allocation is possible only if the answer to the first
// submission was lost. It finds the claim taken and runs nothing.
func oneJob(h *index) (found []string) {
	for _, d := range h.Dirs {
		if len(d.Claims) > 1 {
			found = append(found, fmt.Sprintf("the claim of %s was job %s's", d.Allocation, strings.Join(d.Claims, "'s and job ")))
		}
	}
	twins := h.twins()
	for name, submissions := range twins {
		for _, first := range submissions[:len(submissions)-1] { // to which there was to be an answer
			if !h.answerLost(first.Submitted) {
				found = append(found, fmt.Sprintf("%s has the jobs %s, and no deed explains it", name, strings.Join(idsOf(submissions), " and ")))
				break
			}
		}
	}
	if most := 1 + len(h.jobsOf)/rareTwins; len(twins) > most {
		found = append(found, fmt.Sprintf("%d of %d allocations were submitted more than once; more than %d are no accident", len(twins), len(h.jobsOf), most))
	}
	slices.Sort(found)
	return found
}

// rareTwins: at most one allocation in so many may have been submitted twice, whatever the
// deeds, besides one. In storms that kill gangline-node every second a deed is always near.
const rareTwins = 50

// twins are the allocations that were submitted more than once: the first job of each
// submission.
func (h *index) twins() map[string][]Job {
	twins := map[string][]Job{}
	for name, jobs := range h.jobsOf {
		if submissions := h.submissions(name, jobs); len(submissions) > 1 {
			twins[name] = submissions
		}
	}
	return twins
}

// submissions are the jobs of an allocation without their later starts, and of the
// components of a heterogeneous one the first.
func (h *index) submissions(name string, jobs []Job) (firsts []Job) {
	jobs = slices.Clone(jobs)
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Or(a.Submitted.Compare(b.Submitted), a.number()-b.number()) })
	components := max(1, h.dirOf[name].Groups)
	var one []Job // what has been seen of the last submission
	for _, j := range jobs {
		if len(one) == 0 || !continues(one, j, components) {
			firsts, one = append(firsts, j), nil
		}
		one = append(one, j)
	}
	return firsts
}

// again are the states after which Slurm may start a job once more by itself. It is then
// submitted anew, as far as jobcomp tells.
var again = []string{"NODE_FAIL", "REQUEUED", "PREEMPTED"}

// continues tells whether a job is of the same submission as those before it: it is one of
// them, or the next of so many components. Components have consecutive ids.
func continues(before []Job, j Job, components int) bool {
	ids := map[string]bool{}
	for _, b := range before {
		ids[b.ID] = true
		if b.ID == j.ID && (b.Submitted.Equal(j.Submitted) || slices.Contains(again, b.State)) {
			return true
		}
	}
	last := before[len(before)-1]
	atOnce := j.Submitted.Sub(last.Submitted) <= time.Second // whole seconds, cut off
	return !ids[j.ID] && len(ids) < components && j.number() == last.number()+1 && atOnce
}

func idsOf(jobs []Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// twinning are the deeds by which the answer to a submission may be lost: whoever asks dies
// or is late, the way to Slurm or Slurm itself is away, or the answer cannot be written.
var twinning = []string{"killNode", "freezeNode", "killGateway", KillSlurmctld, StopSlurmctld, "cutWire", "fillSpool", "freezeSpool"}

// answered is how long after a submission its answer may still be on its way to the spool.
const answered = 3 * time.Second

// answerLost tells whether the answer to a submission may have been lost, or slurmctld may
// have forgotten it.
func (h *index) answerLost(submitted time.Time) bool {
	return slices.ContainsFunc(h.Deeds, func(d Deed) bool {
		back := answered
		if d.Kind == KillSlurmctld {
			back = amnesia
		}
		return slices.Contains(twinning, d.Kind) && d.At.Add(-back).Before(submitted.Add(time.Second)) && !d.Until.Before(submitted)
	})
}

// oneAllocation: the next allocation of a gang comes when those before it have ended. A
// look into the spool reads the names before the files, so whose end was written before the
// next was made is never seen to end later.
func oneAllocation(h *index) (found []string) {
	byGang := map[string][]Dir{}
	for _, d := range h.Dirs {
		byGang[d.Gang] = append(byGang[d.Gang], d)
	}
	for gang, dirs := range byGang {
		slices.SortFunc(dirs, func(a, b Dir) int { return a.Generation - b.Generation })
		for i, b := range dirs {
			for _, a := range dirs[:i] {
				if what := h.atOnce(a, b); what != "" {
					found = append(found, "gang "+gang+": "+what)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// atOnce tells what is wrong about two allocations of a gang, empty if b came after a.
func (h *index) atOnce(a, b Dir) string {
	there := a.Ended
	if there.IsZero() {
		there = a.LastSeen
	}
	switch {
	case a.Generation == b.Generation:
		return fmt.Sprintf("there are two allocations of generation %d, %s and %s", a.Generation, a.Allocation, b.Allocation)
	case overlap(h.claimed(a), h.claimed(b)):
		return fmt.Sprintf("the jobs of %s and %s ran at once", a.Allocation, b.Allocation)
	case there.After(b.FirstSeen):
		return fmt.Sprintf("%s was there at %s, and %s had not ended until %s", b.Allocation, clock(b.FirstSeen), a.Allocation, clock(there))
	}
	return ""
}

// claimed are the jobs of an allocation's name that took its claim.
func (h *index) claimed(d Dir) (jobs []Job) {
	for _, j := range h.jobsOf[d.Allocation] {
		if j.ID == h.claimOf[d.Allocation] {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func overlap(a, b []Job) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Started.Before(y.Ended) && y.Started.Before(x.Ended) {
				return true
			}
		}
	}
	return false
}
