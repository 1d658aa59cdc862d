package translate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
)

func TestContainerStatusTellsWhatTheContainerHas(t *testing.T) {
	pod := translatetest.MakePod("p").Request(corev1.ResourceCPU, "2").Obj()
	c := &pod.Spec.Containers[0]
	c.Image = "pytorch:2"
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "data", MountPath: "/data"}, {Name: "keys", MountPath: "/keys", ReadOnly: true},
		{Name: "code", MountPath: "/code", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyIfPossible)},
	}
	c.Lifecycle = &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}
	waits := translate.PodStatus(translate.Observation{Pod: pod, Now: now})
	runs := observed(pod, spool.PodStatus{Containers: []corev1.ContainerStatus{running("main")}})
	for sentence, s := range map[string]corev1.ContainerStatus{"while it waits": waits.ContainerStatuses[0], "while it runs": runs.ContainerStatuses[0]} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, "pytorch:2", s.Image)
			assert.Equal(t, []corev1.VolumeMountStatus{
				{Name: "data", MountPath: "/data"},
				{Name: "keys", MountPath: "/keys", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled)},
				{Name: "code", MountPath: "/code", ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyEnabled)},
			}, s.VolumeMounts)
			assert.Equal(t, resource.MustParse("2"), s.AllocatedResources[corev1.ResourceCPU])
			assert.Equal(t, resource.MustParse("2"), s.Resources.Requests[corev1.ResourceCPU])
			assert.Equal(t, corev1.SIGUSR1, *s.StopSignal)
		})
	}
	assert.Empty(t, waits.ContainerStatuses[0].ImageID)
	assert.NotEmpty(t, runs.ContainerStatuses[0].ImageID, "it has one once it has started")
}

func TestAMessageThatIsTooLongIsCut(t *testing.T) {
	s := exited("a", 1)
	s.State.Terminated.Message = strings.Repeat("é", 12<<10)
	got := observed(podOf("a", "b", "c"), spool.PodStatus{Containers: []corev1.ContainerStatus{s}})
	assert.Equal(t, strings.Repeat("é", 2<<10), got.ContainerStatuses[0].State.Terminated.Message)
}

// What becomes of the containers of a pod that can run no more, as in kubelet's
// TerminatePod.
func TestContainersOfAPodThatWasEnded(t *testing.T) {
	pod := translatetest.MakePod("p").InitContainer("i").InitContainer("j").Sidecar("s").Obj()
	const waits, gone, fine = "waiting", "ended with 137", "ended with 0"
	waiting := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	}
	backsOff := func(name string) corev1.ContainerStatus {
		s := exited(name, 3)
		s.LastTerminationState, s.State = s.State, waiting(name).State
		return s
	}
	for sentence, c := range map[string]struct {
		i, j, s, main corev1.ContainerStatus
		want          []string
	}{
		"nothing had started":              {waiting("i"), waiting("j"), waiting("s"), waiting("main"), []string{gone, waits, waits, waits}},
		"the first init container ran":     {running("i"), waiting("j"), waiting("s"), waiting("main"), []string{gone, waits, waits, waits}},
		"the second one waited to restart": {exited("i", 0), backsOff("j"), waiting("s"), waiting("main"), []string{fine, gone, waits, waits}},
		"only the sidecar ran yet":         {exited("i", 0), exited("j", 0), running("s"), waiting("main"), []string{fine, fine, gone, gone}},
		"the main container ran":           {exited("i", 0), exited("j", 0), running("s"), running("main"), []string{fine, fine, gone, gone}},
		"the main container had ended":     {exited("i", 0), exited("j", 0), running("s"), exited("main", 0), []string{fine, fine, gone, fine}},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := translate.PodStatus(translate.Observation{
				Pod: pod, Now: now, Ended: &translate.Ending{ExitCode: 137, ContainerReason: "ContainerStatusUnknown"},
				Observed: &spool.PodStatus{InitContainers: []corev1.ContainerStatus{c.i, c.j, c.s}, Containers: []corev1.ContainerStatus{c.main}},
			})
			var got []string
			for _, cs := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
				switch end := cs.State.Terminated; {
				case end == nil:
					got = append(got, waits)
				case end.ExitCode == 0:
					got = append(got, fine)
				default:
					assert.Equal(t, "ContainerStatusUnknown", end.Reason)
					assert.EqualValues(t, 137, end.ExitCode)
					got = append(got, gone)
				}
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, corev1.PodFailed, s.Phase)
		})
	}
}

func TestAPodWhoseContainerCouldNotStartHasAStartTime(t *testing.T) {
	broken := exited("main", 128)
	broken.State.Terminated.StartedAt = metav1.NewTime(now)
	pod := translatetest.MakePod("p").Obj()
	s := observed(pod, spool.PodStatus{Containers: []corev1.ContainerStatus{broken}, Done: true})
	assert.Equal(t, now.Truncate(time.Second), s.StartTime.Time)
	assert.Nil(t, observed(pod, spool.PodStatus{}).StartTime)
}
