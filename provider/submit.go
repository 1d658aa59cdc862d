package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// submit gets the gang its one allocation. The directory comes first, then the
// question whether a job of this name exists, and only then the submission:
// a process that dies between any two of them neither loses nor doubles a job.
func (r *Reconciler) submit(ctx context.Context, s *state) error {
	if s.alloc == nil || !s.alloc.live() {
		if err := r.allocate(s); err != nil {
			return err
		}
	}
	a := s.alloc
	if !a.untouched {
		// Somebody may have submitted it before. Only a listing younger than
		// the last try can tell.
		if !s.listed.After(a.lastTry) {
			s.within(r.config.JobInterval.Duration)
			return nil
		}
		if s.job != nil {
			return r.adopt(ctx, s)
		}
	}
	if len(s.missing) > 0 || !reflect.DeepEqual(s.gang.Tasks(), a.gang.Tasks) || len(s.gang.TaskGroups()) != a.gang.Groups {
		// The pods that were there when the directory was made are gone, or
		// the owner is another by now, and no job was ever submitted.
		s.within(10 * time.Millisecond)
		return r.markEnded(ctx, a, spool.Ended{Outcome: string(wlm.OutcomeCancelled), At: s.now, Message: "never submitted"})
	}
	if left := retryDelay(a.tries) - s.now.Sub(a.lastTry); a.tries > 0 && left > 0 {
		s.within(left)
		return nil
	}
	return r.trySubmit(ctx, s)
}

// allocate makes the next generation's directory.
func (r *Reconciler) allocate(s *state) error {
	generation := 1
	if s.alloc != nil {
		generation = s.alloc.gang.Generation + 1
	}
	a, err := newAllocation(r.registry.root, r.registry.names, s.gang, generation)
	if err != nil {
		return err
	}
	r.registry.add(a)
	s.alloc = a
	s.reports = make([]spool.Status, len(a.gang.Slots))
	s.jobs, s.listed = r.jobs.named(a.name())
	s.job = chooseJob(s.jobs, a)
	return nil
}

// adopt records the job that an earlier life of this process submitted.
func (r *Reconciler) adopt(ctx context.Context, s *state) error {
	logr.FromContextOrDiscard(ctx).Info("adopted a job that was submitted before", "job", s.job.ID)
	return r.recordJob(s, spool.Job{ID: s.job.ID, Submitted: s.job.Submitted})
}

func (r *Reconciler) recordJob(s *state, job spool.Job) error {
	a := s.alloc
	if err := spool.Write(a.dir.Job(), job); err != nil {
		return err
	}
	a.job, a.submitError = &job, ""
	s.within(10 * time.Millisecond) // there may be more to do than to wait for its next change
	return nil
}

func (r *Reconciler) trySubmit(ctx context.Context, s *state) error {
	a := s.alloc
	request := translate.NewRequest(a.name(), s.gang, s.wishes, r.config.Agent, string(a.dir))
	if request.Partition == "" {
		request.Partition = r.config.Partition
	}
	site := r.site()
	if why := translate.NeverFits(request.Groups, site.nodes(request.Partition), site.inventory.ComponentsShareNodes); why != "" {
		a.tries, a.lastTry = a.tries+1, s.now
		return r.submissionFailed(ctx, s, &wlm.RejectedError{Message: why})
	}
	a.untouched = false
	began := time.Now()
	id, err := r.manager.Submit(ctx, request)
	a.lastTry = time.Now()
	a.tries++
	if err != nil {
		return r.submissionFailed(ctx, s, err)
	}
	logr.FromContextOrDiscard(ctx).Info("submitted", "job", id, "allocation", a.name(), "slots", len(a.gang.Slots), "took", time.Since(began).String())
	if err := r.recordJob(s, spool.Job{ID: id, Submitted: a.lastTry}); err != nil {
		return err
	}
	r.eventAll(s, corev1.EventTypeNormal, "Submitted", "%s job %s (%s) holds the gang's %d pods", r.kind, id, a.name(), len(a.gang.Slots))
	return nil
}

// submissionFailed keeps the pods waiting, with the workload manager's own
// words, and tries again later: what is wrong may be mended on either side.
func (r *Reconciler) submissionFailed(ctx context.Context, s *state, err error) error {
	a := s.alloc
	logr.FromContextOrDiscard(ctx).Error(err, "the submission failed", "allocation", a.name(), "tries", a.tries)
	var rejected *wlm.RejectedError
	message := fmt.Sprintf("%s did not take the job: %v", r.kind, err)
	if errors.As(err, &rejected) {
		message = fmt.Sprintf("%s cannot take the job: %s", r.kind, rejected.Message)
		a.untouched = true // it was understood and refused: there is no job
	}
	if message != a.submitError {
		a.submitError = message
		r.eventAll(s, corev1.EventTypeWarning, wellknown.ReasonSubmissionFailed, "%s", message)
	}
	s.within(retryDelay(a.tries))
	return nil
}

// retryDelay grows from 5 s to 5 min.
func retryDelay(tries int) time.Duration {
	delay := 5 * time.Second
	for range tries - 1 {
		if delay *= 2; delay >= 5*time.Minute {
			return 5 * time.Minute
		}
	}
	return delay
}

// giveBack ends the allocation: agents are asked to go by themselves, so that
// the job's end is in its accounting as what it was; one that has not started,
// or does not go, is cancelled, again and again until the workload manager says
// that it is gone.
func (r *Reconciler) giveBack(ctx context.Context, s *state) error {
	a := s.alloc
	log := logr.FromContextOrDiscard(ctx)
	if !a.gang.Release {
		a.gang.Release, a.releasedAt = true, s.now
		if err := a.writeGang(); err != nil {
			a.gang.Release = false
			return err
		}
		log.Info("releasing the allocation", "allocation", a.name())
	}
	if a.job == nil {
		return r.giveBackUnsubmitted(ctx, s)
	}
	patience := r.config.ReleaseTimeout.Duration
	if s.job != nil && s.job.Phase == wlm.PhaseQueued && agentsMissing(s.reports) == len(s.reports) {
		patience = 0 // nobody is there who could go by himself
	}
	if left := patience - s.now.Sub(a.releasedAt); left > 0 {
		s.within(left)
		return nil
	}
	if left := cancelAgain - s.now.Sub(a.cancelledAt); left > 0 {
		s.within(left)
		return nil
	}
	if s.job == nil {
		// Not by its number alone: a workload manager that has lost its state
		// may have given it to somebody else's job.
		s.within(r.config.JobInterval.Duration)
		return nil
	}
	a.cancelledAt = s.now
	s.within(cancelAgain)
	if err := r.manager.Cancel(ctx, a.job.ID); err != nil {
		log.Error(err, "could not cancel the job; trying again", "job", a.job.ID)
		return nil
	}
	log.Info("cancelled the job", "job", a.job.ID)
	return nil
}

// cancelAgain is how long a cancelled job has to vanish before it is asked again.
const cancelAgain = 5 * time.Second

// giveBackUnsubmitted ends an allocation whose submission was never answered.
func (r *Reconciler) giveBackUnsubmitted(ctx context.Context, s *state) error {
	a := s.alloc
	if !a.untouched {
		if !s.listed.After(a.lastTry) {
			s.within(r.config.JobInterval.Duration)
			return nil
		}
		if s.job != nil {
			return r.adopt(ctx, s)
		}
	}
	s.within(10 * time.Millisecond)
	return r.markEnded(ctx, a, spool.Ended{Outcome: string(wlm.OutcomeCancelled), At: s.now, Message: "never submitted"})
}

// markEnded writes the allocation's last word. A job of it that shows up after
// all finds that it is not wanted.
func (r *Reconciler) markEnded(ctx context.Context, a *allocation, e spool.Ended) error {
	if !a.gang.Release {
		a.gang.Release = true
		if err := a.writeGang(); err != nil {
			return err
		}
	}
	if err := spool.Write(a.dir.Ended(), e); err != nil {
		return err
	}
	r.registry.markEnded(a, e)
	logr.FromContextOrDiscard(ctx).Info("the allocation has ended", "allocation", a.name(), "outcome", e.Outcome, "message", e.Message)
	return nil
}

// cancelLate cancels jobs whose allocation has ended for us: submissions that
// were given up and came through after all, and jobs that were lost and found.
func (r *Reconciler) cancelLate(ctx context.Context) {
	for _, j := range r.jobs.active() {
		if !r.registry.hasEnded(j.Name) {
			continue
		}
		log := logr.FromContextOrDiscard(ctx).WithValues("job", j.ID, "allocation", j.Name)
		log.Info("cancelling a job whose allocation has ended")
		if err := r.manager.Cancel(ctx, j.ID); err != nil {
			log.Error(err, "could not cancel the job; trying again")
		}
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
		if j.ID == s.alloc.job.ID || j.Phase == wlm.PhaseEnded {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("cancelling a second job of the same name", "job", j.ID, "kept", s.alloc.job.ID)
		if err := r.manager.Cancel(ctx, j.ID); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "could not cancel the second job; trying again", "job", j.ID)
		}
		s.within(cancelAgain)
	}
}
