package provider

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestTransitionsAreToldInKubeletsWords(t *testing.T) {
	const path = "spec.containers{main}"
	waits := func(reason string, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	runs := func(id string) corev1.ContainerStatus {
		return corev1.ContainerStatus{ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	ended := func(id, reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{ContainerID: id, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: id, ExitCode: 128, Reason: reason, Message: "no such file"},
		}}
	}
	crashed := waits("CrashLoopBackOff", 1)
	loops := crashed
	loops.ContainerID, loops.LastTerminationState = "a", ended("a", "StartError").State
	pulled := tale{path, "Normal", "Pulled", `Container image "torch" is not pulled: the program is the HPC node's own`}
	begun := []tale{pulled, {path, "Normal", "Started", "Container started on hpc1"}}
	pod := func(s corev1.ContainerStatus, phase corev1.PodPhase) *corev1.Pod {
		p := translatetest.MakePod("p").Annotation(wellknown.AnnotationHPCNode, "hpc1").Obj()
		p.UID = "u"
		s.Name, s.Image = "main", "torch"
		s.ImageID = cmp.Or(s.ImageID, "torch")
		p.Status = corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{s}}
		return p
	}
	const pending, running, failed = corev1.PodPending, corev1.PodRunning, corev1.PodFailed
	for sentence, c := range map[string]struct {
		before, after *corev1.Pod
		change        func(after *corev1.Pod)
		want          []tale
	}{
		"nothing new":                 {pod(runs("a"), running), pod(runs("a"), running), nil, nil},
		"a container has started":     {pod(waits("ContainerCreating", 0), pending), pod(runs("a"), running), nil, begun},
		"it has started again":        {pod(runs("a"), running), pod(runs("b"), running), nil, begun},
		"it is being held back":       {pod(runs("a"), running), pod(crashed, running), nil, []tale{{path, "Warning", "BackOff", "Back-off restarting failed container main in pod p_default(u)"}}},
		"it is still being held back": {pod(crashed, running), pod(crashed, running), nil, nil},
		"it is being held back once more": {pod(crashed, running), pod(waits("CrashLoopBackOff", 2), running), nil,
			[]tale{{path, "Warning", "BackOff", "Back-off restarting failed container main in pod p_default(u)"}}},
		"it could not be started, and waits for its next start": {pod(waits("ContainerCreating", 0), pending), pod(loops, running), nil,
			[]tale{pulled, {path, "Warning", "Failed", "Error: no such file"},
				{path, "Warning", "BackOff", "Back-off restarting failed container main in pod p_default(u)"}}},
		"it could not be started": {pod(waits("ContainerCreating", 0), pending), pod(ended("a", "StartError"), failed), nil,
			[]tale{pulled, {path, "Warning", "Failed", "Error: no such file"},
				{"", "Warning", "Failed", "Container main ended with exit code 128 (StartError): no such file"}}},
		"it failed": {pod(runs("a"), running), pod(ended("a", "Error"), failed), nil,
			[]tale{{"", "Warning", "Failed", "Container main ended with exit code 128 (Error): no such file"}}},
		"it took too long": {pod(runs("a"), running), pod(ended("a", "Error"), failed), func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = wellknown.ReasonDeadline, "too long"
		}, []tale{{"", "Normal", "DeadlineExceeded", "too long"}}},
		"it was deleted": {pod(runs("a"), running), pod(ended("a", "Error"), failed), func(p *corev1.Pod) {
			p.DeletionTimestamp = ptr.To(metav1.Now())
		}, nil},
		"it starts in its image, of which its agent tells": {
			pod(corev1.ContainerStatus{}, pending), pod(runs("a"), running),
			func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ImageID = "team/tool@sha256:1" },
			begun[1:],
		},
		"its image is none": {
			pod(corev1.ContainerStatus{}, pending), pod(runs("a"), running),
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].Image, p.Status.ContainerStatuses[0].ImageID = wellknown.ImageHost, wellknown.ImageHost
			},
			begun[1:],
		},
		"it was to be resized": {pod(runs("a"), running), pod(runs("a"), running), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible, Message: "no", ObservedGeneration: 2}}
		}, []tale{{"", "Warning", "ResizeInfeasible", "Pod resize is infeasible: no"}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.change != nil {
				c.change(c.after)
			}
			assert.Equal(t, c.want, transition(c.before, c.after))
		})
	}
}

func TestAnEventNamesItsContainer(t *testing.T) {
	p := translatetest.MakePod("p").InitContainer("i").Obj()
	after := p.DeepCopy()
	after.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", ContainerID: "a"}}
	after.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e", ContainerID: "b"}}
	var paths []string
	for _, tale := range transition(p, after) {
		if tale.reason == "Started" {
			paths = append(paths, tale.path)
		}
	}
	assert.Equal(t, []string{"spec.initContainers{i}", "spec.ephemeralContainers{e}"}, paths)
	assert.Equal(t, "spec.initContainers{i}", podReference(p, paths[0]).FieldPath)
}
