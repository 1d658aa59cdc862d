package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

// giveBack ends the allocation: agents are asked to go by themselves, so that
// the job's end is in its accounting as what it was; one that has not started,
// or does not go, is cancelled, again and again until the workload manager says
// that it is gone. So is one whose agents cannot be asked because the spool is
// full: it may be this gang's own logs that fill it.
func (r *Reconciler) giveBack(ctx context.Context, s *state) error {
	a := s.alloc
	var unasked error
	if !a.gang.Release || a.unreleased {
		unasked = a.askToGo(ctx, s.now)
		switch {
		case unasked == nil:
			faults.At(faults.Releasing)
			logr.FromContextOrDiscard(ctx).Info("releasing the allocation", "allocation", a.name())
		case !spool.IsFull(unasked):
			return unasked
		}
	}
	if a.job == nil {
		return errors.Join(unasked, r.giveBackUnsubmitted(ctx, s))
	}
	patience := r.config.ReleaseTimeout.Duration
	if j := s.job; j != nil && (j.Phase == wlm.PhaseQueued || j.Phase == wlm.PhaseStarting) && agentsMissing(s.reports) == len(s.reports) {
		patience = 0 // nobody is there who could go by himself
	}
	if left := patience - s.now.Sub(a.releasedAt); left > 0 {
		s.within(left)
		return unasked
	}
	r.cancel(ctx, s)
	return unasked
}

// askToGo asks the agents to end, and with them the job. The order counts as given where
// it may be (the way was cut), and where there is no room for it: the allocation is given
// back all the same.
func (a *allocation) askToGo(ctx context.Context, now time.Time) error {
	if !a.gang.Release {
		a.gang.Release, a.releasedAt = true, now
	}
	err := a.writeGang(ctx)
	a.unreleased = err != nil && (a.unreleased || errors.Is(err, site.ErrUnreachable) || spool.IsFull(err))
	a.gang.Release = err == nil || a.unreleased
	return err
}

// cancel asks for the end of the allocation's job, after growing pauses, for as
// long as listings show that it has not ended.
//
// Each try needs a listing younger than the one before. So a workload manager
// that is silent is asked nothing but its list, however many gangs are to end;
// and a job is never cancelled by its number alone: a workload manager that has
// lost its state may have given that to somebody else's.
func (r *Reconciler) cancel(ctx context.Context, s *state) {
	a := s.alloc
	if s.job == nil || s.job.Phase == wlm.PhaseEnding || !s.listed.After(a.cancelledAt) {
		s.within(r.config.JobInterval.Duration)
		return
	}
	if left := a.cancels.left(s.now); left > 0 {
		s.within(left)
		return
	}
	faults.At(faults.Cancelling)
	err := r.manager.Cancel(ctx, a.gang.User, a.job.ID)
	faults.At(faults.Cancelled)
	a.cancelledAt = time.Now()
	a.cancels.tried(a.cancelledAt)
	s.within(r.config.JobInterval.Duration)
	log := logr.FromContextOrDiscard(ctx).WithValues("job", a.job.ID, "tries", a.cancels.tries)
	if err == nil {
		log.Info("cancelled the job")
		return
	}
	log.Error(err, "could not cancel the job; trying again")
	if message := err.Error(); message != a.cancelError {
		a.cancelError = message
		r.eventAll(s, corev1.EventTypeWarning, wellknown.ReasonCancellationFailed, "%s did not take the cancellation of job %s and is asked again: %s", r.kind, a.job.ID, message)
	}
}

// retries paces what is tried again and again: at first after 5 s, then twice as
// long each time, at most a minute.
type retries struct {
	tries int
	last  time.Time
}

const (
	firstRetry   = 5 * time.Second
	longestRetry = time.Minute
)

func (r *retries) tried(now time.Time) { r.tries, r.last = r.tries+1, now }

// left is the time until the next try.
func (r *retries) left(now time.Time) time.Duration {
	if r.tries == 0 {
		return 0
	}
	return backOff(r.tries, longestRetry) - now.Sub(r.last)
}

// backOff is the pause after so many tries.
func backOff(tries int, longest time.Duration) time.Duration {
	delay := firstRetry
	for range tries - 1 {
		if delay *= 2; delay >= longest {
			return longest
		}
	}
	return delay
}

// giveBackUnsubmitted ends an allocation whose submission was never answered.
func (r *Reconciler) giveBackUnsubmitted(ctx context.Context, s *state) error {
	a := s.alloc
	if settled, err := r.settled(ctx, s); !settled {
		return err
	}
	if !a.untouched {
		if !s.listed.After(a.lastTry) {
			s.within(r.config.JobInterval.Duration)
			return nil
		}
		if s.job != nil {
			err := r.adopt(ctx, s)
			if spool.IsFull(err) {
				// It gets no orders any more, so that only this process has to know it: to
				// cancel it. Another would find it in the list.
				r.registry.record(a, spool.Job{ID: s.job.ID, Submitted: s.job.Submitted})
			}
			return err
		}
	}
	s.within(10 * time.Millisecond)
	return r.markEnded(ctx, s, spool.Ended{Outcome: string(wlm.OutcomeCancelled), At: s.now, Message: "never submitted"})
}

// markEnded writes the allocation's last word. A job of it that shows up after
// all finds that it is not wanted.
//
// Where there is no room for that and nobody will ask for it, it is left out: the
// directory is removed next, and that alone makes room. Should this process die in
// between, the next one finds the end as this one has.
func (r *Reconciler) markEnded(ctx context.Context, s *state, e spool.Ended) error {
	a := s.alloc
	log := logr.FromContextOrDiscard(ctx).WithValues("allocation", a.name())
	if err := a.writeEnd(ctx, s.now, e); spool.IsFull(err) && s.unneeded() {
		log.Info("there is no room to write down that the allocation has ended; nobody needs it any more", "error", err.Error())
	} else if err != nil {
		return err
	}
	faults.At(faults.Ended)
	r.registry.markEnded(a, e)
	log.Info("the allocation has ended", "outcome", e.Outcome, "message", e.Message)
	return nil
}

func (a *allocation) writeEnd(ctx context.Context, now time.Time, e spool.Ended) error {
	if !a.gang.Release || a.unreleased {
		if err := a.askToGo(ctx, now); err != nil {
			return err
		}
	}
	return a.write(ctx, a.dir.Ended(), e)
}

// unneeded tells of an allocation that has ended, or never had a job, that no pod will
// ask for it, though its end is written nowhere: all that are left go, and have not run
// in it. One that ran must be the last of its gang: later pods would be given to it.
func (s *state) unneeded() bool {
	for _, p := range s.pods {
		if !p.deleting() || p.started {
			return false
		}
	}
	return s.owner.gone || s.alloc.job == nil
}

// pursuit cancels jobs that belong to no living allocation.
type pursuit struct {
	mu    sync.Mutex
	tries map[string]*retries // by job id
}

// due tells whether the job is to be cancelled now, and counts the try.
func (p *pursuit) due(jobID string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tries == nil {
		p.tries = map[string]*retries{}
	}
	if p.tries[jobID] == nil {
		p.tries[jobID] = &retries{}
	}
	if p.tries[jobID].left(now) > 0 {
		return false
	}
	p.tries[jobID].tried(now)
	return true
}

// keep forgets all jobs but these.
func (p *pursuit) keep(active []wlm.Job) {
	ids := make(map[string]bool, len(active))
	for _, j := range active {
		ids[j.ID] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.tries {
		if !ids[id] {
			delete(p.tries, id)
		}
	}
}

// pursue cancels a job that is not wanted, if it is time to; it reports whether
// that was asked for and taken.
func (r *Reconciler) pursue(ctx context.Context, j wlm.Job, why string) bool {
	if !r.pursuit.due(j.ID, time.Now()) {
		return false
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("job", j.ID, "allocation", j.Name)
	log.Info("cancelling a job: " + why)
	if err := r.manager.Cancel(ctx, j.User, j.ID); err != nil {
		log.Error(err, "could not cancel the job; trying again")
		return false
	}
	return true
}

// cancelLate cancels jobs whose allocation has ended for us: submissions that
// were given up and came through after all, and jobs that were lost and found.
//
// A user's gateway may answer late or never. So it runs beside the listings, which are all
// users', and each user's jobs beside the others', one user's once at a time.
func (r *Reconciler) cancelLate(ctx context.Context) {
	active := r.jobs.active()
	r.pursuit.keep(active)
	late := map[string][]wlm.Job{}
	for _, j := range active {
		if r.registry.hasEnded(j.Name) {
			late[j.User] = append(late[j.User], j)
		}
	}
	var group errgroup.Group
	group.SetLimit(workers) // who is left waits at most for the next listing: it asks nobody twice
	for user, jobs := range late {
		group.Go(func() error {
			r.cancelLateOf(ctx, user, jobs)
			return nil
		})
	}
	_ = group.Wait() // failures are logged, and tried again
}

// cancelLateOf cancels jobs of one user, unless an earlier call is still at it.
func (r *Reconciler) cancelLateOf(ctx context.Context, user string, jobs []wlm.Job) {
	if _, busy := r.cancelling.LoadOrStore(user, true); busy {
		return
	}
	defer r.cancelling.Delete(user)
	for _, j := range jobs {
		r.pursue(ctx, j, "its allocation has ended")
	}
}

// dropDuplicates cancels every job of the allocation's name but the one that
// counts. There is one only if a submission was under way when an earlier life
// of this process died; its launcher finds the claim taken, so it runs nothing.
func (r *Reconciler) dropDuplicates(ctx context.Context, s *state) {
	if s.alloc.job == nil {
		return
	}
	for _, j := range s.jobs {
		if j.ID == s.alloc.job.ID || j.Phase == wlm.PhaseEnded || j.Phase == wlm.PhaseEnding {
			continue
		}
		r.pursue(ctx, j, "it is a second one of the same name; kept is "+s.alloc.job.ID)
		s.within(firstRetry)
	}
}
