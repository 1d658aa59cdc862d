package translate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// observed is a pod's status where its agent says this of its containers.
func observed(pod *corev1.Pod, p spool.PodStatus) corev1.PodStatus {
	return translate.PodStatus(translate.Observation{Pod: pod, Now: now, Agent: &spool.Agent{Address: "10.0.0.1"}, Observed: &p})
}

// hasCondition finds a condition; the zero one where there is none.
func hasCondition(s corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestConditionsOfAPodThatIsOver(t *testing.T) {
	for sentence, c := range map[string]struct {
		code        int32
		ended       *translate.Ending
		ready       string // reason
		initialized corev1.ConditionStatus
		reason      string // of Initialized
	}{
		"it succeeded":             {0, nil, "PodCompleted", corev1.ConditionTrue, "PodCompleted"},
		"it failed":                {3, nil, "PodFailed", corev1.ConditionTrue, ""},
		"its allocation was ended": {0, &translate.Ending{Reason: wellknown.ReasonNodeFailure}, "PodFailed", corev1.ConditionTrue, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			end := exited("main", c.code)
			end.State.Terminated.StartedAt = metav1.NewTime(now)
			s := translate.PodStatus(translate.Observation{
				Pod: translatetest.MakePod("p").Obj(), Now: now, Agent: &spool.Agent{Address: "10.0.0.1"}, Ended: c.ended,
				Observed: &spool.PodStatus{Containers: []corev1.ContainerStatus{end}, Done: true},
			})
			for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
				got := condition(t, s, kind)
				assert.Equal(t, corev1.ConditionFalse, got.Status, kind)
				assert.Equal(t, c.ready, got.Reason, kind)
				assert.Empty(t, got.Message, kind)
			}
			assert.Equal(t, c.initialized, condition(t, s, corev1.PodInitialized).Status)
			assert.Equal(t, c.reason, condition(t, s, corev1.PodInitialized).Reason)
			assert.Equal(t, corev1.ConditionFalse, condition(t, s, corev1.PodReadyToStartContainers).Status, "its place is gone")
			assert.Equal(t, corev1.ConditionTrue, condition(t, s, corev1.PodScheduled).Status)
		})
	}
}

func TestEveryConditionSaysWhatItHasSeen(t *testing.T) {
	pod := translatetest.MakePod("p").Obj()
	pod.Generation = 7
	s := observed(pod, spool.PodStatus{Containers: []corev1.ContainerStatus{running("main")}})
	assert.EqualValues(t, 7, s.ObservedGeneration)
	assert.Len(t, s.Conditions, 5)
	for _, c := range s.Conditions {
		assert.EqualValues(t, 7, c.ObservedGeneration, c.Type)
		assert.Equal(t, now.Truncate(time.Second), c.LastTransitionTime.Time, c.Type)
	}
}

func TestResizeIsInfeasible(t *testing.T) {
	pod := translatetest.MakePod("p").Request(corev1.ResourceCPU, "1").Obj()
	one := spool.PodStatus{Containers: []corev1.ContainerStatus{running("main")}}
	pod.Status = observed(pod, one)
	assert.Empty(t, hasCondition(pod.Status, corev1.PodResizePending).Type)

	larger := pod.DeepCopy()
	larger.Generation = 2
	larger.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	for sentence, s := range map[string]corev1.PodStatus{
		"while its agent is silent": translate.PodStatus(translate.Observation{Pod: larger, Now: now}),
		"while it runs":             observed(larger, one),
	} {
		t.Run(sentence, func(t *testing.T) {
			c := condition(t, s, corev1.PodResizePending)
			assert.Equal(t, corev1.ConditionTrue, c.Status)
			assert.Equal(t, corev1.PodReasonInfeasible, c.Reason)
			assert.Contains(t, c.Message, "containers [main] keep what they were given")
			assert.EqualValues(t, 2, c.ObservedGeneration)
			assert.Equal(t, "1", s.ContainerStatuses[0].AllocatedResources.Cpu().String(), "nothing has changed")
			assert.Equal(t, "1", s.ContainerStatuses[0].Resources.Requests.Cpu().String())
		})
	}

	larger.Status = observed(larger, one)
	same := larger.DeepCopy()
	same.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1000m")
	assert.Empty(t, hasCondition(observed(same, one), corev1.PodResizePending).Type, "it was taken back")
	over := observed(larger, spool.PodStatus{Containers: []corev1.ContainerStatus{exited("main", 0)}, Done: true})
	assert.Empty(t, hasCondition(over, corev1.PodResizePending).Type, "it is over")
}

func TestRestartOfAllContainers(t *testing.T) {
	pod := translatetest.MakePod("p").InitContainer("i").Obj()
	pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	done := exited("i", 0)
	done.Ready = true
	again := func(name string, code int32) corev1.ContainerStatus {
		s := exited(name, code)
		s.LastTerminationState, s.State = s.State, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
		return s
	}
	status := func(restarting bool, i, main corev1.ContainerStatus) corev1.PodStatus {
		return observed(pod, spool.PodStatus{
			Restarting: restarting, InitContainers: []corev1.ContainerStatus{i}, Containers: []corev1.ContainerStatus{main},
		})
	}
	pod.Status = status(false, done, running("main"))
	assert.Equal(t, corev1.ConditionFalse, condition(t, pod.Status, corev1.AllContainersRestarting).Status)

	pod.Status = status(true, done, exited("main", 42))
	c := condition(t, pod.Status, corev1.AllContainersRestarting)
	assert.Equal(t, corev1.ConditionTrue, c.Status)
	assert.Equal(t, "RestartAllContainersStarted", c.Reason)

	pod.Status = status(false, again("i", 0), again("main", 42))
	assert.Equal(t, corev1.ConditionFalse, condition(t, pod.Status, corev1.AllContainersRestarting).Status)
	assert.Equal(t, corev1.PodRunning, pod.Status.Phase)
	assert.Equal(t, corev1.ConditionTrue, condition(t, pod.Status, corev1.PodInitialized).Status, "that is never undone")

	over := observed(pod, spool.PodStatus{InitContainers: []corev1.ContainerStatus{done}, Containers: []corev1.ContainerStatus{exited("main", 0)}, Done: true})
	assert.Equal(t, "PodCompleted", condition(t, over, corev1.AllContainersRestarting).Reason)
}
