package provider

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// refuse fails the pods that can never run here, or has them wait with the reason.
func (r *Reconciler) refuse(ctx context.Context, s *state) error {
	var errs []error
	for _, p := range s.pods {
		if p.rejection == nil || terminal(p.pod) {
			continue
		}
		after := p.pod.DeepCopy()
		after.Status = translate.RejectedStatus(p.pod, s.now, *p.rejection)
		controllerutil.RemoveFinalizer(after, wellknown.Finalizer)
		pod, err := r.writes.patch(ctx, p.pod, after)
		if err := ignoreGone(err); err != nil {
			errs = append(errs, err)
			continue
		}
		if pod != p.pod {
			r.event(p.pod, corev1.EventTypeWarning, p.rejection.Reason, "%s", p.rejection.Message)
		}
		p.pod = pod
	}
	return errors.Join(errs...)
}

// accept takes on new pods: from here on each has a finalizer, and so stays in
// the API server until nothing of it can run any more.
func (r *Reconciler) accept(ctx context.Context, s *state) error {
	var accepted []*podState
	var changes []podChange
	for _, p := range s.pods {
		if !p.live() || p.deleting() || p.accepted() {
			continue
		}
		after := p.pod.DeepCopy()
		controllerutil.AddFinalizer(after, wellknown.Finalizer)
		// Its place too, where it has one already: before that is written down it gets no orders.
		annotate(after, r.annotations(s, p))
		label(after, p)
		after.Status = r.statusOf(s, p)
		accepted, changes = append(accepted, p), append(changes, podChange{p.pod, after})
	}
	var errs []error
	for i, w := range r.writes.patchAll(ctx, changes) {
		if err := ignoreGone(w.err); err != nil {
			errs = append(errs, err)
			continue
		}
		faults.At(faults.Accepted)
		accepted[i].pod = w.pod
		r.announce(s, accepted[i])
	}
	return errors.Join(errs...)
}

// announce tells in Events what a newly accepted pod should know.
func (r *Reconciler) announce(s *state, p *podState) {
	for _, warning := range translate.Warnings(p.pod, s.hpc.forPod(p.wishes)) {
		r.event(p.pod, corev1.EventTypeWarning, "Ignored", "%s", warning)
	}
	if s.owner.absent != "" {
		r.event(p.pod, corev1.EventTypeNormal, wellknown.ReasonWaitingForGang, "Nothing is submitted before the gang's size is known: %s", s.owner.absent)
	}
	if len(s.missing) > 0 && (s.alloc == nil || !s.alloc.live()) {
		r.event(p.pod, corev1.EventTypeNormal, wellknown.ReasonWaitingForGang, "Nothing is submitted before the gang is complete: %s", s.missingMessage())
	}
}

// report writes each pod's status if it has changed. A pod that is over gets
// its last status and loses its finalizer in the same write; one that is being
// deleted is then removed, as kubelet does.
func (r *Reconciler) report(ctx context.Context, s *state) error {
	var told []*podState
	var changes []podChange
	for _, p := range s.pods {
		if after := r.reportable(s, p); after != nil {
			told, changes = append(told, p), append(changes, podChange{p.pod, after})
		}
	}
	var errs []error
	for i, w := range r.writes.patchAll(ctx, changes) {
		errs = append(errs, r.reported(ctx, s, told[i], w))
	}
	return errors.Join(errs...)
}

// reportable is a pod as it is to be shown; nil while a change has to wait.
func (r *Reconciler) reportable(s *state, p *podState) *corev1.Pod {
	after := p.pod.DeepCopy()
	switch {
	case p.rejection != nil || terminal(p.pod):
		if !p.running() {
			controllerutil.RemoveFinalizer(after, wellknown.Finalizer)
		}
	case !p.accepted():
		// Nothing was ever done for it.
	default:
		after.Status = r.statusOf(s, p)
		delete(after.Annotations, wellknown.AnnotationExpectedStart)
		annotate(after, r.annotations(s, p))
		label(after, p)
		if p.over {
			controllerutil.RemoveFinalizer(after, wellknown.Finalizer)
		}
	}
	if s.mayWait(p, after) || !s.mayWrite(p, after) {
		return nil
	}
	return after
}

// reported does what follows a write.
func (r *Reconciler) reported(ctx context.Context, s *state, p *podState, w written) error {
	if err := ignoreGone(w.err); err != nil {
		return err
	}
	pod := w.pod
	if pod != p.pod {
		faults.At(faults.Reported)
		r.wrote(s, p, p.pod, pod)
		r.tellTransition(p.pod, pod)
	}
	setTime(&s.note.start.told, p.slot, s.writtenAt(p.slot))
	if !terminal(p.pod) && p.accepted() {
		if err := r.tellAgent(ctx, s, p); err != nil {
			return err
		}
	}
	if pod.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(pod, wellknown.Finalizer) {
		faults.At(faults.Unbinding)
		return r.writes.remove(ctx, pod)
	}
	return nil
}

// How often a pod's status is written because its agent reports something new: so many
// times at once, which is more than the start of a pod with many containers takes, and then
// as often as kubelet looks at a pod that nothing is known to have happened to
// (syncFrequency is 1 min; a pod's worker comes back after 10 s). Who can write the spool
// must not be able to keep the API server busy.
const (
	statusBurst = 100
	statusRate  = 1.0 / 10 // a second
)

// mayWrite tells whether a pod's new status may be written now; otherwise the gang is
// looked at again soon. A pod's last status waits for nothing.
func (s *state) mayWrite(p *podState, after *corev1.Pod) bool {
	if p.observed == nil || p.over || equality.Semantic.DeepEqual(p.pod.Status, after.Status) {
		return true
	}
	if s.note.telling(p.uid()).writes.TryAccept() {
		return true
	}
	s.within(time.Second)
	return false
}

// passing is how long a state on the way to a pod's start has to last to be shown.
const passing = 3 * time.Second

// firstListing is how long a pod's place waits to be shown together with the state of its
// job: a listing comes each second.
const firstListing = 1500 * time.Millisecond

// mayWait tells whether a change need not be written now: the pod waits before it and
// after it, and will mostly run, or wait for something else, a moment later, which is
// written at once with all of it. Where the pod has its place must be there before the pod
// gets its orders, in case of a crash, so it waits for the pod's agent at the most.
func (s *state) mayWait(p *podState, after *corev1.Pod) bool {
	if p.waiting.Reason != "" || !pending(p.pod) || !pending(after) || p.over || p.deleting() || everRan(p.pod) != everRan(after) {
		return false
	}
	if known := p.pod.Status.Reason == wellknown.ReasonQueued || p.pod.Status.Reason == wellknown.ReasonStarting; known && p.agent == nil && s.unheard() {
		return true // the process before this one knew more
	}
	limit := passing
	if p.pod.Annotations[wellknown.AnnotationAllocation] != after.Annotations[wellknown.AnnotationAllocation] {
		if p.agent != nil || s.job != nil {
			return false
		}
		limit = firstListing
	}
	if !differs(p.pod, after) {
		delete(s.note.start.passing, p.uid())
		return false
	}
	since, known := s.note.start.passing[p.uid()]
	if !known {
		since = s.now
		setTime(&s.note.start.passing, p.uid(), since)
	}
	left := limit - s.now.Sub(since)
	if left > 0 {
		s.within(left)
	}
	return left > 0
}

func (r *Reconciler) statusOf(s *state, p *podState) corev1.PodStatus {
	waiting := p.waiting
	if waiting.Reason == "" {
		waiting = s.waitingText()
	}
	return translate.PodStatus(translate.Observation{
		Pod: p.pod, Now: s.now, Waiting: waiting,
		Agent: p.agent, Observed: p.observed, Ephemeral: p.ephemeral, Ended: p.ended(),
	})
}

// ended is the ending of a pod that is over and did not end by itself: what
// the agent saw counts, unless the node itself had it stopped.
func (p *podState) ended() *translate.Ending {
	if p.ending == nil || !p.over {
		return nil
	}
	return p.ending
}

// identityNotes say of which gang a pod is, and whose that is.
func (r *Reconciler) identityNotes(s *state, p *podState) map[string]string {
	notes := map[string]string{wellknown.AnnotationGang: s.key}
	if owner := ownerNote(s.gang.Owner); owner != "" {
		notes[wellknown.AnnotationGangOwner] = owner
	}
	r.noteUser(s, p, notes)
	return notes
}

// ownerNote is a gang's owner ("JobSet default/pi") as gangline.dev/depends-on has it
// ("JobSet/pi"): the namespace is the pod's own. It is "" while the owner is not known.
func ownerNote(owner string) string {
	kind, of, _ := strings.Cut(owner, " ")
	_, name, ok := strings.Cut(of, "/")
	if !ok {
		return ""
	}
	if kind == "gang" {
		kind = "Gang" // one that gangline.dev/gang-name has made
	}
	return kind + "/" + name
}

// maxNodeName is the longest name that DNS allows, in bytes.
const maxNodeName = 253

func (r *Reconciler) annotations(s *state, p *podState) map[string]string {
	notes := r.identityNotes(s, p)
	if a := s.alloc; a != nil && a.live() && a.job != nil && p.slot >= 0 {
		notes[wellknown.AnnotationAllocation] = a.name()
		notes[wellknown.AnnotationJobID] = a.job.ID
		notes[wellknown.AnnotationSubmitted] = a.job.Submitted.UTC().Format(time.RFC3339)
		notes[wellknown.AnnotationRank] = strconv.Itoa(p.slot)
		notes[wellknown.AnnotationSize] = strconv.Itoa(len(a.gang.Slots))
	}
	if s.job != nil && s.job.Phase == wlm.PhaseQueued && p.slot >= 0 && p.agent == nil && s.note.expected != "" {
		notes[wellknown.AnnotationExpectedStart] = s.note.expected
	}
	if p.agent != nil {
		notes[wellknown.AnnotationHPCNode] = bounded(p.agent.Node, maxNodeName)
	}
	return notes
}

// label puts the HPC node where kubectl get -L shows it. A name that is no label
// stays an annotation.
func label(pod *corev1.Pod, p *podState) {
	if p.agent == nil || len(validation.IsValidLabelValue(p.agent.Node)) > 0 {
		return
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[wellknown.AnnotationHPCNode] = p.agent.Node
}

func annotate(pod *corev1.Pod, notes map[string]string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, notes)
}

func (r *Reconciler) event(pod *corev1.Pod, kind, reason, format string, args ...any) {
	r.recorder.Eventf(pod, kind, reason, format, args...)
}

// eventAll records the same for every living pod of the gang.
func (r *Reconciler) eventAll(s *state, kind, reason, format string, args ...any) {
	for _, p := range s.pods {
		if p.live() {
			r.event(p.pod, kind, reason, format, args...)
		}
	}
}

// eventOne records what is the whole gang's and asks nothing of its pods, for one of them:
// the first that it has, live or not.
func (r *Reconciler) eventOne(s *state, kind, reason, format string, args ...any) {
	if len(s.pods) == 0 {
		return
	}
	first := slices.MinFunc(s.pods, func(a, b *podState) int { return cmp.Compare(uint(a.slot), uint(b.slot)) }) // -1 comes last
	r.event(first.pod, kind, reason, format, args...)
}
