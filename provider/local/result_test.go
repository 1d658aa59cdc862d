package local

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func endedWith(code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
}

func TestThePodsExitCodeIsTheHighestOfItsContainers(t *testing.T) {
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	all := func(statuses ...corev1.ContainerStatus) []corev1.ContainerStatus { return statuses }
	tests := map[string]struct {
		pod     spool.PodStatus
		stopped bool
		want    int
	}{
		"all succeeded":                   {spool.PodStatus{Containers: all(endedWith(0), endedWith(0))}, false, 0},
		"one failed":                      {spool.PodStatus{Containers: all(endedWith(0), endedWith(3))}, false, 3},
		"a sidecar was ended by a signal": {spool.PodStatus{InitContainers: all(endedWith(143)), Containers: all(endedWith(0))}, false, 0},
		"an init container failed":        {spool.PodStatus{InitContainers: all(endedWith(5)), Containers: all(waiting)}, false, 5},
		"the pod failed as a whole":       {spool.PodStatus{Reason: "PrivateRootUnavailable", Containers: all(waiting)}, false, 1},
		"nothing has ended":               {spool.PodStatus{Containers: all(waiting)}, false, 0},
		"ended by a signal, unasked":      {spool.PodStatus{Containers: all(endedWith(137))}, false, 137},
		"ended by a signal when asked to": {spool.PodStatus{Containers: all(endedWith(143), endedWith(137))}, true, 0},
		"failed although it was asked to": {spool.PodStatus{Containers: all(endedWith(143), endedWith(2))}, true, 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, podExitCode(tt.pod, tt.stopped)) })
	}
}

func TestWorkersThatWereStoppedDoNotFailTheGang(t *testing.T) {
	dir := spool.Root(t.TempDir()).Dir("pi-1")
	err := dir.Create(2)
	require.NoError(t, err)
	gang := spool.Gang{Slots: make([]spool.Slot, 2)}
	require.NoError(t, spool.Write(dir.Gang(), gang))
	report := func(k int, uid string, code int32) {
		require.NoError(t, spool.Write(dir.Status(k), spool.Status{Pod: &spool.PodStatus{
			UID: uid, Done: true, Containers: []corev1.ContainerStatus{endedWith(code)},
		}}))
	}
	exitCode := func() int {
		code, err := podsExitCode(dir)
		require.NoError(t, err)
		return code
	}
	assert.Zero(t, exitCode(), "no pod has been there yet")
	report(0, "launcher", 0)
	report(1, "worker", 143)
	assert.Equal(t, 143, exitCode())
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "another", Action: spool.ActionStop}))
	assert.Equal(t, 143, exitCode(), "another pod was stopped")
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "worker", Action: spool.ActionStop}))
	assert.Zero(t, exitCode())
	require.NoError(t, spool.Write(dir.Desired(1), spool.Desired{PodUID: "worker", Action: spool.ActionRun}))
	gang.Release = true
	require.NoError(t, spool.Write(dir.Gang(), gang))
	assert.Zero(t, exitCode(), "all were, with the allocation")
	report(0, "launcher", 7)
	assert.Equal(t, 7, exitCode())
}
