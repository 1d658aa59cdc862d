package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// state is one gang at one moment: what was gathered, and what the policies
// decide about it.
type state struct {
	key   string
	now   time.Time
	gang  translate.Gang
	owner ownerState
	// slots are the live allocation's, or else those the owner declares.
	slots []translate.Slot
	pods  []*podState

	// user is whose the gang's next allocation is to be, or the living one is; hpc is what
	// there is for him.
	user     *hpcUser
	identity identity.Identity
	hpc      hpcView

	alloc *allocation // the newest, nil if there was none
	// surplus are those that live beside it; chosenBy is when the query began by which it
	// was chosen among them.
	surplus  []*allocation
	chosenBy time.Time
	// file reads a file of the allocation's; cut tells that one could not be asked for, so
	// that nothing was learnt.
	file func(path string, v any) (bool, error)
	cut  bool
	// jobs are those of the allocation's name, as of the query at listed.
	jobs   []wlm.Job
	job    *wlm.Job // the one that counts
	listed time.Time
	// reports are the agents' last words, one for each slot of the allocation.
	reports []spool.Status

	// toldAt is when each of them was written, by the file server's clock.
	toldAt []time.Time

	// missing are the first slots that have no pod; nothing is submitted
	// while there are any.
	missing []int
	// note is what is remembered of the gang between two looks.
	note *note
	// wishes come from the pods' annotations.
	wishes translate.Wishes
	// ending is set when the allocation's end has been seen and is final.
	ending *spool.Ended
	// abandon tells that the workload manager has forgotten the job while its
	// agents may live: they are to end.
	abandon bool
	// releasing tells that the allocation is to be given back.
	releasing bool
	// limit is when the time limit ends the job, once it is so near that the pods are
	// to be stopped.
	limit time.Time
	// dependency is what the submission says of the gangs that come first, and awaits
	// what has to be waited for before it can be made.
	dependency, awaits string
	// turn is the user one of whose turns the gang holds; empty where nobody has turns.
	turn string
	// manager is the workload manager for people: "Slurm".
	manager string
	// trouble is why the allocation could not be prepared; empty if it could.
	trouble string
	// recheck is how soon the gang must be looked at again, 0 for no timer.
	recheck time.Duration
}

// ownerState is what the gang's owner wants.
type ownerState struct {
	gone      bool // deleted, or being deleted
	suspended bool
	finished  bool
	// absent says which object the pods name that does not exist, or does not
	// any more. They are asked again for their gang: another may have its name.
	absent string
}

// done tells that the owner will bring no more pods.
func (o ownerState) done() bool { return o.gone || o.suspended || o.finished }

// podState is one pod of the gang, and what is decided about it.
type podState struct {
	pod  *corev1.Pod
	role translate.Role
	slot int // -1 while it has none

	// before is where it has had a slot, as far as the spool remembers.
	before *place
	// sealed tells that it bears the node's seal.
	sealed bool
	// lost is where it ran, if nothing is known of that any more.
	lost *lostPlace
	// started tells that its orders were given to an agent: something of it
	// may run.
	started  bool
	observed *spool.PodStatus
	agent    *spool.Agent

	// identity is whom the pod is mapped to now, unmapped why it is to nobody.
	identity identity.Identity
	unmapped error
	// wishes are the pod's own, with its owner's where it has none.
	wishes    translate.Wishes
	rejection *translate.Rejection
	// claims are those that a pod without a slot mounts, and unusable why it has to
	// wait for one of them.
	claims   map[string]translate.Claim
	unusable *translate.MissingError
	waiting  translate.Waiting
	// ephemeral says which of its ephemeral containers cannot start yet, and why.
	ephemeral map[string]translate.Waiting
	ending    *translate.Ending
	// stop asks the agent to end it within grace.
	stop  bool
	grace int64
	// over tells that nothing of it runs nor will: it may get its last
	// status, and its finalizer may go.
	over bool
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// live tells that the pod still has something to run.
func (p *podState) live() bool {
	return !terminal(p.pod) && p.rejection == nil && !p.over
}

// running tells that something of the pod may run, whatever the API server says
// of it.
func (p *podState) running() bool { return p.started && !p.over }

func (p *podState) deleting() bool { return p.pod.DeletionTimestamp != nil }

func (p *podState) accepted() bool {
	return controllerutil.ContainsFinalizer(p.pod, wellknown.Finalizer)
}

// admitted tells that the node has accepted the pod before. Its author can write the
// finalizer too, but neither the node's seal nor where it has had a place.
func (p *podState) admitted() bool { return p.accepted() && (p.sealed || p.before != nil) }

// uid is short for the pod's UID.
func (p *podState) uid() types.UID { return p.pod.UID }

// within asks for another look after d at the latest.
func (s *state) within(d time.Duration) {
	d = max(d, 10*time.Millisecond)
	if s.recheck == 0 || d < s.recheck {
		s.recheck = d
	}
}

// gather collects all that is known of a gang.
func (r *Reconciler) gather(ctx context.Context, key string) (*state, error) {
	s := &state{key: key, now: time.Now(), note: r.notes.of(key)}
	var owner types.NamespacedName
	for uid, m := range r.owners.members(key) {
		pod := &corev1.Pod{}
		err := r.client.Get(ctx, m.pod, pod)
		if apierrors.IsNotFound(err) || (err == nil && pod.UID != uid) {
			r.owners.forget(uid)
			r.writes.forget(uid)
			r.forgetInputs(uid)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading pod %s: %w", m.pod, err)
		}
		if m.owner.Name != "" {
			owner = m.owner
		}
		if terminal(pod) {
			r.forgetInputs(uid)
		}
		s.pods = append(s.pods, &podState{pod: r.writes.newest(pod), role: m.role, slot: -1})
	}
	slices.SortFunc(s.pods, func(a, b *podState) int {
		if c := a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.pod.Name, b.pod.Name)
	})
	if err := r.identify(ctx, s); err != nil {
		return s, err
	}
	for _, p := range s.pods {
		if err := r.gatherPlace(ctx, p); err != nil {
			return nil, err
		}
	}
	r.chooseAllocation(s)
	r.settle(s)
	if err := r.takeTurn(s); err != nil {
		return s, err
	}
	if owner.Name == "" && s.alloc != nil {
		owner = types.NamespacedName{Namespace: s.alloc.gang.Namespace, Name: s.alloc.gang.OwnerName}
	}
	options := r.options()
	if s.alloc == nil || !s.alloc.live() {
		options.Pods = s.identity.Limits.Pods // what was submitted once stays so
	}
	err := r.owners.declare(ctx, s, owner, options)
	if err != nil {
		return s, err
	}
	if err := r.reassign(ctx, s); err != nil {
		return s, err
	}
	s.slots = s.gang.Slots
	if s.alloc == nil || !s.alloc.live() {
		return s, nil
	}
	if s.slots = slotsOf(s.alloc.gang); s.alloc.job == nil && len(s.gang.Slots) == len(s.slots) {
		s.slots = s.gang.Slots // not submitted yet: the owner's word about who must be there still counts
	}
	s.file = func(path string, v any) (bool, error) { return s.alloc.read(ctx, path, v) }
	s.jobs, s.listed = r.jobs.named(s.alloc.name())
	s.jobs = r.people.ofUser(s.jobs, s.alloc.gang.User)
	if s.job, err = chooseJob(ctx, s.jobs, s.alloc); err != nil {
		return s, err
	}
	s.reports, s.toldAt = r.statuses.of(s.alloc), r.statuses.writtenAt(s.alloc)
	return s, nil
}

// gatherPlace finds where a pod has had a slot. One whose allocation has ended
// has its last status in the API server, unless this process died in between:
// the cache may be behind, and only the API server knows.
func (r *Reconciler) gatherPlace(ctx context.Context, p *podState) error {
	if p.before = r.registry.place(p.uid()); p.before == nil {
		p.lost = r.lostPlaceOf(p)
	}
	p.sealed = r.sealed(p.pod)
	if p.before == nil || p.before.ended == nil || terminal(p.pod) {
		return nil
	}
	now := &corev1.Pod{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(p.pod), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading pod %s/%s: %w", p.pod.Namespace, p.pod.Name, err)
	}
	if err == nil && now.UID == p.uid() {
		p.pod = now
	}
	return nil
}

func slotsOf(g spool.Gang) []translate.Slot {
	slots := make([]translate.Slot, len(g.Slots))
	for k, s := range g.Slots {
		slots[k] = translate.Slot{
			Role: roleOf(s), Hosts: s.Hosts, Rides: s.Rides, MPISlots: s.MPISlots,
			Resources: translate.Resources{GPUs: s.GPUs},
		}
	}
	return slots
}

// chooseJob picks the job that counts among those of the allocation's name:
// the recorded one, or the one that took the claim, or the oldest.
func chooseJob(ctx context.Context, jobs []wlm.Job, a *allocation) (*wlm.Job, error) {
	id := ""
	if a.job != nil {
		id = a.job.ID
	} else if len(jobs) > 0 {
		var claim spool.Claim
		ok, err := a.read(ctx, a.dir.Claim(), &claim)
		if errors.Is(err, site.ErrUnreachable) {
			return nil, err
		}
		if err == nil && ok {
			id = claim.JobID
		}
	}
	var oldest *wlm.Job
	for i, j := range jobs {
		if j.ID == id {
			return &jobs[i], nil
		}
		if !refusal(j) && (oldest == nil || j.Submitted.Before(oldest.Submitted)) {
			oldest = &jobs[i]
		}
	}
	if id != "" {
		return nil, nil
	}
	return oldest, nil
}

// read reads a file of the allocation's, and reports whether it is there and can be read.
func (s *state) read(path string, v any) bool {
	ok, err := s.file(path, v)
	s.cut = s.cut || errors.Is(err, site.ErrUnreachable)
	return ok && err == nil
}

// refusal tells whether a job is but the record of a submission that the
// workload manager refused: it ended the moment it was submitted, without ever
// having had a node. (Slurm keeps such records; sbatch has said that it failed.)
func refusal(j wlm.Job) bool {
	return j.Phase == wlm.PhaseEnded && j.Nodes == "" && j.Ended.Sub(j.Submitted) <= time.Second
}
