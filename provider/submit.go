package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/site"
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
		if err := r.allocate(ctx, s); err != nil {
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
	if settled, err := r.settled(ctx, s); !settled {
		return err
	}
	if len(s.missing) > 0 || !reflect.DeepEqual(s.gang.Tasks(), a.gang.Tasks) || len(s.gang.TaskGroups()) != a.gang.Groups {
		// The pods that were there when the directory was made are gone, or
		// the owner is another by now, and no job was ever submitted.
		s.within(10 * time.Millisecond)
		return r.markEnded(ctx, s, spool.Ended{Outcome: string(wlm.OutcomeCancelled), At: s.now, Message: "never submitted"})
	}
	if left := retryDelay(a.tries) - s.now.Sub(a.lastTry); a.tries > 0 && left > 0 {
		s.within(left)
		return nil
	}
	if s.awaits != "" {
		return nil
	}
	return r.trySubmit(ctx, s)
}

// allocate makes the next generation's directory. A try whose answer may have been lost is
// repeated under the same name, or there would be two directories for one allocation.
func (r *Reconciler) allocate(ctx context.Context, s *state) error {
	generation := 1
	if s.alloc != nil {
		generation = s.alloc.gang.Generation + 1
	}
	a, err := s.note.begun, error(nil)
	if a != nil && a.gang.Generation == generation && a.gang.User == s.user.name {
		err = a.create(ctx, s.user.root)
	} else {
		a, err = newAllocation(ctx, s.user, r.keys.seal, r.registry.names, s.gang, generation, s.wishes.Exclusive, r.config.Volumes.Scratch)
	}
	if err != nil {
		s.note.begun = a
		return err
	}
	s.note.begun = nil
	faults.At(faults.Allocated)
	r.registry.add(a)
	s.alloc = a
	s.reports = make([]spool.Status, len(a.gang.Slots))
	s.jobs, s.listed = r.jobs.named(a.name())
	s.jobs = r.people.ofUser(s.jobs, a.gang.User)
	s.file = func(path string, v any) (bool, error) { return a.read(ctx, path, v) }
	s.job, err = chooseJob(ctx, s.jobs, a)
	return err
}

// adopt records the job that an earlier life of this process submitted.
func (r *Reconciler) adopt(ctx context.Context, s *state) error {
	logr.FromContextOrDiscard(ctx).Info("adopted a job that was submitted before", "job", s.job.ID)
	return r.recordJob(ctx, s, spool.Job{ID: s.job.ID, Submitted: s.job.Submitted})
}

func (r *Reconciler) recordJob(ctx context.Context, s *state, job spool.Job) error {
	a := s.alloc
	if err := a.write(ctx, a.dir.Job(), job); err != nil {
		return err
	}
	faults.At(faults.Recorded)
	r.registry.record(a, job)
	a.submitError = ""
	s.within(10 * time.Millisecond) // there may be more to do than to wait for its next change
	return nil
}

func (r *Reconciler) trySubmit(ctx context.Context, s *state) error {
	a := s.alloc
	if why := s.identity.Refuse(s.wishes); why != "" { // annotations and the map can change until now
		r.withhold(ctx, s, why+" (by the node's map of identities)")
		return nil
	}
	agent, err := r.people.sites.Agent(ctx, a.gang.User, r.config.Agent)
	if err != nil {
		return fmt.Errorf("bringing the agent to the HPC side: %w", err)
	}
	request := translate.NewRequest(a.name(), s.gang, s.wishes, agent, string(a.dir))
	request.User, request.Dependency = a.gang.User, s.dependency
	if request.Partition == "" {
		request.Partition = s.hpc.partition
	}
	if why := translate.NeverFits(request.Groups, s.hpc.nodes(request.Partition), s.hpc.inventory.ComponentsShareNodes); why != "" {
		r.withhold(ctx, s, why)
		return nil
	}
	a.untouched = false
	faults.At(faults.Submitting)
	began := time.Now()
	id, err := r.manager.Submit(ctx, request)
	faults.At(faults.Submitted)
	a.lastTry = time.Now()
	a.tries++
	a.cut = errors.Is(err, site.ErrUnreachable)
	if err != nil && ctx.Err() != nil {
		a.lastTry = a.lastTry.Add(submissionLasts) // nobody waits for it, and it may be under way
	}
	if err != nil {
		r.submissionFailed(ctx, s, err)
		return nil
	}
	logr.FromContextOrDiscard(ctx).Info("submitted", "job", id, "allocation", a.name(), "slots", len(a.gang.Slots), "took", time.Since(began).String())
	if began := s.note.start.complete; !began.IsZero() {
		r.metrics.Submitted(a.lastTry.Sub(began))
	}
	if err := r.recordJob(ctx, s, spool.Job{ID: id, Submitted: a.lastTry}); err != nil {
		return err
	}
	r.eventAll(s, corev1.EventTypeNormal, "Submitted", "%s job %s (%s) holds the gang's %d pods", r.kind, id, a.name(), len(a.gang.Slots))
	return nil
}

// submissionLasts is longer than any submission is under way that was given up: the
// workload managers' own timeouts are a minute, and a gateway that was stopped begins it at
// most 45 s late.
const submissionLasts = 2 * time.Minute

// settled makes sure that a submission during which the way to the site was cut has come
// to its end there: the way is open again when the site's lock is free, which every
// sbatch holds. Only a listing from after that tells whether there is a job.
func (r *Reconciler) settled(ctx context.Context, s *state) (bool, error) {
	a := s.alloc
	if left := a.lastTry.Sub(s.now); left > 0 {
		s.within(left)
		return false, nil
	}
	if !a.cut {
		return true, nil
	}
	if _, err := a.site.User(ctx); err != nil {
		return false, err
	}
	a.cut, a.lastTry = false, time.Now()
	s.within(r.config.JobInterval.Duration)
	return false, nil
}

// withhold keeps a job from the workload manager that is not for it to judge. It is tried
// again: annotations, the map and the nodes can change.
func (r *Reconciler) withhold(ctx context.Context, s *state, why string) {
	a := s.alloc
	a.tries, a.lastTry = a.tries+1, s.now
	logr.FromContextOrDiscard(ctx).Info("the job is not submitted", "allocation", a.name(), "tries", a.tries, "why", why)
	r.unsubmitted(s, "the job is not submitted: "+why)
}

// submissionFailed keeps the pods waiting, with the workload manager's own
// words, and tries again later: what is wrong may be mended on either side.
func (r *Reconciler) submissionFailed(ctx context.Context, s *state, err error) {
	a := s.alloc
	logr.FromContextOrDiscard(ctx).Error(err, "the submission failed", "allocation", a.name(), "tries", a.tries)
	var rejected *wlm.RejectedError
	message := fmt.Sprintf("%s did not take the job: %v", r.kind, err)
	if errors.As(err, &rejected) {
		message = fmt.Sprintf("%s cannot take the job: %s", r.kind, rejected.Message)
		a.untouched = true // it was understood and refused: there is no job
	}
	r.unsubmitted(s, message)
}

// unsubmitted tells the pods once why there is no job yet, and when it is tried again.
func (r *Reconciler) unsubmitted(s *state, message string) {
	a := s.alloc
	if message != a.submitError {
		a.submitError = message
		r.eventAll(s, corev1.EventTypeWarning, wellknown.ReasonSubmissionFailed, "%s", message)
	}
	s.within(retryDelay(a.tries))
}

// tellTrouble shows on the pods that the allocation could not be prepared, and has
// it tried again soon. All of that happens in the spool.
func (r *Reconciler) tellTrouble(ctx context.Context, s *state, err error) {
	logr.FromContextOrDiscard(ctx).Error(err, "could not prepare the allocation; trying again")
	s.trouble = fmt.Sprintf("the spool %s cannot be written: %v; it is tried again", s.user.root, spool.Cause(err))
	if s.trouble != s.note.trouble {
		s.note.trouble = s.trouble
		r.eventAll(s, corev1.EventTypeWarning, wellknown.ReasonSubmissionFailed, "%s", s.trouble)
	}
	s.within(firstRetry)
}

// retryDelay grows from 5 s to 5 min.
func retryDelay(tries int) time.Duration { return backOff(tries, 5*time.Minute) }
