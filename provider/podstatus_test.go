package provider

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestOwnerNote(t *testing.T) {
	for owner, want := range map[string]string{
		"JobSet default/pi":  "JobSet/pi",
		"gang default/ring":  "Gang/ring",
		"Pod default/single": "Pod/single",
		"":                   "",
	} {
		assert.Equal(t, want, ownerNote(owner), owner)
	}
}

func TestAPodSaysItsPlaceOnceThereIsAJob(t *testing.T) {
	r := &Reconciler{people: &people{only: "me"}}
	p := &podState{pod: translatetest.MakePod("p").Obj(), slot: 1}
	s := &state{key: "jobset/u/0", gang: translate.Gang{Owner: "JobSet default/pi"}, note: &note{}}
	assert.Equal(t, map[string]string{wellknown.AnnotationGang: "jobset/u/0", wellknown.AnnotationGangOwner: "JobSet/pi"}, r.annotations(s, p))

	submitted := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	s.alloc = &allocation{gang: spool.Gang{Allocation: "pi-1", Slots: make([]spool.Slot, 4)}, job: &spool.Job{ID: "7", Submitted: submitted}}
	notes := r.annotations(s, p)
	for name, want := range map[string]string{
		wellknown.AnnotationJobID: "7", wellknown.AnnotationRank: "1", wellknown.AnnotationSize: "4",
		wellknown.AnnotationSubmitted: "2026-01-02T03:04:05Z",
	} {
		assert.Equal(t, want, notes[name], name)
	}
	s.alloc.ended = &spool.Ended{}
	assert.NotContains(t, r.annotations(s, p), wellknown.AnnotationAllocation, "its place will be in the next one")
}

// An agent that reports something new a thousand times a second is not followed for ever;
// the pod's last status is written all the same.
func TestAnAgentCannotHaveAPodWrittenAgainAndAgain(t *testing.T) {
	pod := translatetest.MakePod("p").Obj()
	p := &podState{pod: pod, observed: &spool.PodStatus{}}
	s := &state{note: &note{}}
	written := 0
	for n := range 1000 {
		after := pod.DeepCopy()
		after.Status.Message = fmt.Sprint(n)
		if s.mayWrite(p, after) {
			written++
		}
	}
	assert.GreaterOrEqual(t, written, statusBurst)
	assert.Less(t, written, 2*statusBurst)
	assert.Positive(t, s.recheck, "what is left is written later")
	assert.True(t, s.mayWrite(p, pod), "no change is no write")
	p.over = true
	after := pod.DeepCopy()
	after.Status.Message = "over"
	assert.True(t, s.mayWrite(p, after))
	other := translatetest.MakePod("other").Obj()
	other.UID = "another"
	after = other.DeepCopy()
	after.Status.Message = "new"
	assert.True(t, s.mayWrite(&podState{pod: other, observed: &spool.PodStatus{}}, after), "each pod by itself")
}
