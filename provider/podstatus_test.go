package provider

import (
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
}
