package provider

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/translate"
)

const (
	// searchAfter is how long a gang is incomplete before its missing pods are
	// looked for: pods come one by one, and mostly within a second.
	searchAfter = 3 * time.Second
	// searchAgain is the time between two searches for one gang.
	searchAgain = 10 * time.Second
)

// notes are what is worth remembering of gangs, for their pods' texts alone: a
// restarted provider begins without.
type notes struct {
	mu    sync.Mutex
	gangs map[string]*note
}

// note is one gang's. Only its reconciliation uses it.
type note struct {
	// shown is the waiting text on the pods.
	shown   translate.Waiting
	shownAt time.Time
	// expected is the expected start as of then.
	expected string
	// limitTold is the allocation whose pods were told of its time limit.
	limitTold string
	// incomplete is since when pods are missing, asked when they were last
	// looked for, whereabouts what was found, by host name.
	incomplete, asked time.Time
	whereabouts       map[string]string
	// lostSeen is when a pod was first seen whose place is lost.
	lostSeen time.Time
	// unmet is why the spool could not be read, as last told.
	unmet string
	// begun is an allocation whose directory was asked for, and may be there.
	begun *allocation
	// trouble is why the spool could not be written, as last told; full paces what is
	// tried again for want of room there.
	trouble string
	full    retries
	// start is when what of the gang's start happened.
	start starting
	// told is how far the pods' agents' Events have been told.
	told map[types.UID]*telling
}

// first tells whether an Event about an absent object is told for the first time.
func (n *note) first(pod types.UID, event string) bool {
	t := n.telling(pod)
	if t.absent[event] {
		return false
	}
	if t.absent == nil {
		t.absent = map[string]bool{}
	}
	t.absent[event] = true
	return true
}

// keep forgets all pods but these: a gang may have any number of them in its life.
func (n *note) keep(pods []*podState) {
	there := make(map[types.UID]bool, len(pods))
	for _, p := range pods {
		there[p.uid()] = true
	}
	maps.DeleteFunc(n.told, func(uid types.UID, _ *telling) bool { return !there[uid] })
	for _, times := range []map[types.UID]time.Time{n.start.seen, n.start.ordered, n.start.running, n.start.passing} {
		maps.DeleteFunc(times, func(uid types.UID, _ time.Time) bool { return !there[uid] })
	}
}

func (n *note) telling(uid types.UID) *telling {
	if n.told[uid] == nil {
		if n.told == nil {
			n.told = map[types.UID]*telling{}
		}
		n.told[uid] = &telling{
			limit:  flowcontrol.NewTokenBucketPassiveRateLimiter(agentEventsRate, agentEventsBurst),
			writes: flowcontrol.NewTokenBucketPassiveRateLimiter(statusRate, statusBurst),
		}
	}
	return n.told[uid]
}

func (n *notes) of(key string) *note {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gangs == nil {
		n.gangs = map[string]*note{}
	}
	if n.gangs[key] == nil {
		n.gangs[key] = &note{}
	}
	return n.gangs[key]
}

func (n *notes) forget(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.gangs, key)
}

// lookForMissing finds out why the missing pods of a gang are not here: the
// scheduler may have bound them to another node, or cannot bind them at all. A
// failed look changes nothing.
func (r *Reconciler) lookForMissing(ctx context.Context, s *state) {
	n := s.note
	waiting := len(s.gang.PodLabels) > 0 && len(bound(s.pods)) > 0
	if !waiting || len(s.missing) == 0 || (s.alloc != nil && s.alloc.live()) {
		n.incomplete, n.asked, n.whereabouts = time.Time{}, time.Time{}, nil
		return
	}
	if n.incomplete.IsZero() {
		n.incomplete = s.now
	}
	if left := max(searchAfter-s.now.Sub(n.incomplete), searchAgain-s.now.Sub(n.asked)); left > 0 {
		s.within(left)
		return
	}
	n.asked = s.now
	s.within(searchAgain)
	pods := &corev1.PodList{}
	ours := client.MatchingLabels(s.gang.PodLabels)
	if err := r.live.List(ctx, pods, client.InNamespace(s.gang.Namespace), ours); err != nil {
		return
	}
	n.whereabouts = map[string]string{}
	for i := range pods.Items {
		n.whereabouts[translate.ShortHostname(&pods.Items[i])] = whereIs(&pods.Items[i])
	}
}

// whereIs says where a pod is that is not here.
func whereIs(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return "it is on node " + pod.Spec.NodeName
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("it is not scheduled: %s", c.Message)
		}
	}
	return "it is not scheduled"
}
