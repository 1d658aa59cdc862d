package provider

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// updates is what running pods were last told of what changes while they run. It is
// in memory only: after a restart each pod is told once more, at its gang's next turn.
type updates struct {
	mu   sync.Mutex
	pods map[types.UID]*lastUpdate
}

// lastUpdate is one pod's. Only the reconciliation of its gang uses it.
type lastUpdate struct {
	// volumes and ephemeral are sums of what was sent.
	volumes, ephemeral [sha256.Size]byte
	// labels and annotations are the pod's when its volumes were last looked at.
	labels, annotations map[string]string
	// due is when they are to be looked at again, zero for never so far.
	due time.Time
	// told are the Events about volumes that could not be made anew.
	told map[string]string
}

func newUpdates() *updates { return &updates{pods: map[types.UID]*lastUpdate{}} }

func (u *updates) of(pod types.UID) *lastUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pods[pod] == nil {
		u.pods[pod] = &lastUpdate{}
	}
	return u.pods[pod]
}

func (u *updates) forget(pod types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pods, pod)
}

// orderUpdate tells the agent of a pod that runs what has changed for it: the files of
// its volumes, which are looked at when the pod's labels or annotations change and else
// at the gang's turn, and its new ephemeral containers.
func (r *Reconciler) orderUpdate(ctx context.Context, s *state, p *podState, in *inputs) error {
	d := s.alloc.desired[p.slot]
	takes := d.PodUID == string(p.uid()) && d.Action == spool.ActionRun && d.Recipient == s.reports[p.slot].Agent.Recipient
	if !takes || p.observed == nil || p.observed.Done {
		return nil // it has not read its orders yet, or needs nothing more
	}
	ephemeral, err := r.ephemeralOrders(ctx, s, p, in)
	if err != nil {
		return err
	}
	last := r.updates.of(p.uid())
	due := r.volumesDue(s, p, last)
	if due && !r.mayRenew(s, p, last, in) {
		due = false
	}
	if !due && len(ephemeral) == 0 {
		return nil
	}
	u := spool.PodUpdate{UID: string(p.uid()), EphemeralContainers: ephemeral}
	var missing []*translate.MissingError
	if u.Volumes, missing, err = r.refresh(ctx, s, p); err != nil {
		// What the pod has stays, as with kubelet, and its gang has other things to do.
		logr.FromContextOrDiscard(ctx).Error(err, "could not look for changes of the pod's volumes; trying again", "pod", d.Pod)
		return nil
	}
	r.tellMissing(p, last, missing)
	return r.sendUpdate(ctx, s, p, u)
}

// sendUpdate sends a pod's complete update if anything of it was not sent last.
func (r *Reconciler) sendUpdate(ctx context.Context, s *state, p *podState, u spool.PodUpdate) error {
	last := r.updates.of(p.uid())
	volumes, ephemeral, err := sumsOf(u)
	if err != nil {
		return err
	}
	if volumes == last.volumes && (ephemeral == last.ephemeral || len(u.EphemeralContainers) == 0) {
		return nil
	}
	d := s.alloc.desired[p.slot]
	if d.Update, err = spool.Seal(d.Recipient, u); err != nil {
		return err
	}
	if err := r.writeDesired(ctx, s.alloc, p.slot, d); err != nil {
		return err
	}
	last.volumes, last.ephemeral = volumes, ephemeral
	logr.FromContextOrDiscard(ctx).Info("sent what has changed for the pod", "pod", d.Pod, "slot", p.slot)
	return nil
}

// volumesDue tells whether a pod's volumes are to be looked at now, and notes when
// that is to be the next time. After a restart of this process all pods are as new to
// it, so each waits for its gang's turn.
func (r *Reconciler) volumesDue(s *state, p *podState, last *lastUpdate) bool {
	if last.waits(p.pod, s.now) {
		s.within(last.due.Sub(s.now))
		return false
	}
	if len(translate.FollowingVolumes(p.pod)) == 0 {
		return false
	}
	known := !last.due.IsZero()
	last.see(p.pod, r.nextTurn(s))
	s.within(last.due.Sub(s.now))
	return known
}

// mayRenew tells whether the tokens of a pod that are to be renewed may be asked for
// in this look at the gang; if not, the pod's turn comes a little later.
func (r *Reconciler) mayRenew(s *state, p *podState, last *lastUpdate, in *inputs) bool {
	n := r.tokens.due(p.uid(), translate.RefreshReferences(p.pod).Tokens)
	if n > 0 && in.renewals >= renewalsAtOnce {
		last.due = s.now.Add(renewAgain)
		s.within(renewAgain)
		return false
	}
	in.renewals += n
	return true
}

// refresh makes the pod's volumes anew. One that cannot be made is left out, and
// missing says why.
func (r *Reconciler) refresh(ctx context.Context, s *state, p *podState) (volumes []spool.Volume, missing []*translate.MissingError, err error) {
	in := &inputs{r: r, site: s.hpc.site, maxAge: r.config.Volumes.turn()}
	values, err := in.of(ctx, p.pod, translate.RefreshReferences(p.pod))
	if err != nil {
		return nil, nil, err
	}
	r.locate(s, p, &values) // not what takes the whole gang: all its pods are looked at in each turn
	volumes, missing = translate.Refresh(p.pod, values)
	return volumes, missing, nil
}

// ordered notes what a pod got with its orders.
func (r *Reconciler) ordered(s *state, p *podState, orders spool.PodOrders) error {
	u := spool.PodUpdate{UID: orders.UID}
	follows := map[string]bool{}
	for _, v := range translate.FollowingVolumes(p.pod) {
		follows[v.Name] = true
	}
	for _, v := range orders.Volumes {
		if follows[v.Name] {
			u.Volumes = append(u.Volumes, v)
		}
	}
	last := r.updates.of(p.uid())
	last.see(p.pod, r.nextTurn(s))
	var err error
	last.volumes, last.ephemeral, err = sumsOf(u)
	return err
}

// waits tells that what a pod's files tell of it has not changed, and its turn has
// not come.
func (l *lastUpdate) waits(pod *corev1.Pod, now time.Time) bool {
	return now.Before(l.due) && maps.Equal(l.labels, pod.Labels) && maps.Equal(l.annotations, pod.Annotations)
}

func (l *lastUpdate) see(pod *corev1.Pod, due time.Time) {
	l.labels, l.annotations, l.due = pod.Labels, pod.Annotations, due
}

// nextTurn is the gang's next turn to be looked at: all its pods at once, and each
// gang at a moment of its own.
func (r *Reconciler) nextTurn(s *state) time.Time {
	return nextTurn(s.key, s.now, r.config.Volumes.turn())
}

func nextTurn(gang string, now time.Time, every time.Duration) time.Time {
	h := fnv.New64a()
	_, _ = h.Write([]byte(gang))
	offset := time.Duration(h.Sum64() % uint64(every)) //nolint:gosec // it is positive
	next := now.Truncate(every).Add(offset)
	if !next.After(now) {
		next = next.Add(every)
	}
	return next
}

// sumsOf tell one update from the next. They never leave this process: what a Secret
// holds could be guessed by them.
func sumsOf(u spool.PodUpdate) (volumes, ephemeral [sha256.Size]byte, err error) {
	sum := func(v any) [sha256.Size]byte {
		data, problem := json.Marshal(v)
		err = errors.Join(err, problem)
		return sha256.Sum256(data)
	}
	volumes, ephemeral = sum(u.Volumes), sum(u.EphemeralContainers)
	if err != nil {
		return volumes, ephemeral, fmt.Errorf("encoding what has changed for a pod: %w", err)
	}
	return volumes, ephemeral, nil
}

// tellMissing tells of each volume that could not be made anew, once.
func (r *Reconciler) tellMissing(p *podState, last *lastUpdate, missing []*translate.MissingError) {
	told := map[string]string{}
	for _, m := range missing {
		told[m.Volume] = m.Message
		if last.told[m.Volume] != m.Message {
			reason, text := m.Event()
			r.event(p.pod, corev1.EventTypeWarning, reason, "%s", text)
		}
	}
	last.told = told
}
