package provider

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// meets gives the scene's gang names, and its agents ports.
func meets(c *scene) *allocation {
	a := c.allocated(wlm.PhaseRunning)
	a.gang.Names = make([]spool.Name, len(a.gang.Slots))
	for k, slot := range a.gang.Slots {
		a.gang.Names[k] = spool.Name{Slot: k, Hosts: slot.Hosts}
		c.s.reports[k].Agent.RendezvousPorts = []int{20000 + 4*k, 20001 + 4*k}
	}
	return a
}

func TestPodsThatComeLaterMeetAtTheSamePorts(t *testing.T) {
	c := newScene(t)
	a := meets(c)
	first := meetingOf(a.gang, c.s.reports, 1, &corev1.Pod{})
	port, _ := first.Port("pi-worker-0-0", 29600)
	require.NoError(t, a.keepMeeting(t.Context(), first))
	own, _ := first.Port("localhost", 29600)
	assert.Equal(t, []int{20000, 20004}, []int{port, own})

	again, err := loadAllocation(t.Context(), ownerOf(a), a.name(), nil, c.names(), testNow)
	require.NoError(t, err, "another life of the node")
	late := meetingOf(again.gang, c.s.reports, 2, &corev1.Pod{})
	other, _ := late.Port("pi-worker-0-0", 29500)
	same, _ := late.Port("pi-worker-0-0", 29600)
	assert.Equal(t, []int{20001, 20000}, []int{other, same})
}

func TestWhereTheGangMeetsIsKeptOrNothingIsSaid(t *testing.T) {
	c := newScene(t)
	a := meets(c)
	require.NoError(t, os.RemoveAll(string(a.dir)))
	m := meetingOf(a.gang, c.s.reports, 1, &corev1.Pod{})
	m.Port("pi-worker-0-0", 29500)
	require.Error(t, a.keepMeeting(t.Context(), m))
	assert.Empty(t, a.gang.Slots[0].Rendezvous)
}

func TestGangsThatMeetWhereItIsWritten(t *testing.T) {
	c := newScene(t)
	c.s.gang.Whole = false
	assert.Nil(t, meetingOf(meets(c).gang, c.s.reports, 0, &corev1.Pod{}), "others of the owner are elsewhere")
	c.s.gang.Whole = true
	a, err := newAllocation(t.Context(), testUser(t.TempDir()), keySource{}.seal, c.names(), c.s.gang, 1, true, "")
	require.NoError(t, err)
	assert.Nil(t, meetingOf(a.gang, c.s.reports, 0, &corev1.Pod{}), "it has whole nodes")
	assert.NoError(t, a.keepMeeting(t.Context(), nil))
}
