package provider

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// meetingOf is where the gang's pods meet, as the pod in one of the slots is to see
// it; nil where that is as it is written.
func meetingOf(g spool.Gang, reports []spool.Status, own int, pod *corev1.Pod) *translate.Meeting {
	if !g.MovesPorts {
		return nil
	}
	m := &translate.Meeting{Own: own, Attempt: translate.RestartAttempt(pod)}
	for k, slot := range g.Slots {
		m.Places = append(m.Places, translate.MeetingPlace{
			Hosts: g.Names[k].Hosts, Ports: reports[k].Agent.RendezvousPorts, Written: slot.Rendezvous,
		})
	}
	return m
}

// keepMeeting writes down which ports are named, before a pod hears of them: those
// that come later must be told the same.
func (a *allocation) keepMeeting(ctx context.Context, m *translate.Meeting) error {
	if m == nil {
		return nil
	}
	before := slices.Clone(a.gang.Slots)
	changed := false
	for k, place := range m.Places {
		if len(place.Written) > len(before[k].Rendezvous) {
			a.gang.Slots[k].Rendezvous, changed = place.Written, true
		}
	}
	if !changed {
		return nil
	}
	err := a.writeGang(ctx)
	if err != nil {
		for k := range before {
			a.gang.Slots[k].Rendezvous = before[k].Rendezvous
		}
	}
	return err
}
