package provider

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-logr/logr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// A gang has one allocation that lives. A process may find more of them in the spool: one
// before it was cut off from the site while it made a directory, made a second one, and was
// killed before it had written down which of them has a job.

// chooseAllocation finds the allocation of the gang that counts, if it had one, and those
// that live beside it.
func (r *Reconciler) chooseAllocation(s *state) {
	_, s.chosenBy = r.jobs.named("") // or a later one
	s.alloc, s.surplus = choose(r.registry.of(s.key), func(a *allocation) bool {
		return slices.ContainsFunc(r.jobsOf(a), func(j wlm.Job) bool { return !refusal(j) })
	})
}

// jobsOf are the jobs of an allocation's name, as of the last listing.
func (r *Reconciler) jobsOf(a *allocation) []wlm.Job {
	jobs, _ := r.jobs.named(a.name())
	return r.people.ofUser(jobs, a.gang.User)
}

// choose picks the newest allocation: of several that which had pods, or a job, or whose job
// is listed.
func choose(all []*allocation, listed func(*allocation) bool) (counts *allocation, surplus []*allocation) {
	if len(all) == 0 {
		return nil, nil
	}
	counts = slices.MaxFunc(all, func(x, y *allocation) int {
		return cmp.Or(
			cmp.Compare(x.gang.Generation, y.gang.Generation),
			compare(len(x.pods) > 0, len(y.pods) > 0),
			compare(x.job != nil, y.job != nil),
			compare(listed(x), listed(y)),
			cmp.Compare(x.name(), y.name()),
		)
	})
	for _, a := range all {
		if a != counts && a.live() {
			surplus = append(surplus, a)
		}
	}
	return counts, surplus
}

// compare has true follow false.
func compare(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// endSurplus ends the allocations that live beside the one that counts. Those that cannot be
// ended yet stay in the state: until they have ended nothing is submitted for the gang. What
// has had a pod is left alone.
func (r *Reconciler) endSurplus(ctx context.Context, s *state) {
	s.surplus = slices.DeleteFunc(s.surplus, func(a *allocation) bool {
		over := len(a.pods) > 0 || s.chosenBy.After(a.lastTry) && r.endUnused(ctx, s, a)
		if !over {
			s.within(r.config.JobInterval.Duration)
		}
		return over
	})
}

// endUnused ends an allocation in which no pod was, once no job of it is listed.
func (r *Reconciler) endUnused(ctx context.Context, s *state, a *allocation) (ended bool) {
	jobs := slices.DeleteFunc(slices.Clone(r.jobsOf(a)), func(j wlm.Job) bool { return j.Phase == wlm.PhaseEnded })
	for _, j := range jobs {
		if j.Phase != wlm.PhaseEnding {
			r.pursue(ctx, j, "its gang has another allocation")
		}
	}
	if len(jobs) > 0 {
		return false
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("allocation", a.name())
	e := spool.Ended{Outcome: string(wlm.OutcomeCancelled), At: s.now, Message: "the gang has another allocation"}
	if err := a.writeEnd(ctx, s.now, e); err != nil {
		log.Error(err, "could not end an allocation beside the gang's own; trying again")
		return false
	}
	r.registry.markEnded(a, e)
	log.Info("ended an allocation beside the gang's own")
	return true
}
