package e2e

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// members creates the pods of a PodGroup.
func (w *world) members(join func(*corev1.Pod), names ...string) {
	w.Helper()
	for _, name := range names {
		pod := w.makePod(name, "echo rank $GANGLINE_RANK of $GANGLINE_SIZE; sleep 2", resources("1", "0"))
		join(pod)
		w.create(pod)
	}
}

// ranks checks what the members of a PodGroup say, which are in rank order.
func (w *world) ranks(names ...string) {
	w.Helper()
	pods := w.gangPods(corev1.PodSucceeded, names...)
	for rank, name := range names {
		assert.Equal(w, fmt.Sprintf("rank %d of %d\n", rank, len(names)), w.must("logs", name))
	}
	w.waitJobGone(pods...)
}

func ownPodGroup(w *world) {
	w.owner(`
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: ring}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
`)
	w.members(func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("ring")}
	}, "w-2", "w-10", "w-9")
	w.ranks("w-2", "w-9", "w-10")
}

func latePodGroup(w *world) {
	join := func(p *corev1.Pod) { p.Labels = map[string]string{wellknown.LabelPodGroup: "ring"} }
	w.members(join, "w-1")
	missing := "there is no PodGroup " + w.namespace + "/ring (scheduling.x-k8s.io)"
	w.waitWaiting("w-1", missing)
	w.waitEvent("w-1", wellknown.ReasonWaitingForGang, missing)
	w.owner(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: ring}
spec: {minMember: 2}
`)
	w.waitWaiting("w-1", "1 of 2 pods")
	// A group that is made anew is another gang; its pods wait for that one.
	w.must("delete", "podgroups.scheduling.x-k8s.io", "ring")
	w.waitWaiting("w-1", missing)
	w.owner(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: ring}
spec: {minMember: 3}
`)
	w.waitWaiting("w-1", "1 of 3 pods")
	w.members(join, "w-0", "w-2")
	w.ranks("w-0", "w-1", "w-2")
}

func volcanoPodGroup(w *world) {
	w.owner(`
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: ring}
spec: {minMember: 2, queue: default}
`)
	join := func(p *corev1.Pod) { p.Annotations = map[string]string{wellknown.AnnotationVolcanoGroup: "ring"} }
	w.members(join, "job-worker-0")
	w.waitWaiting("job-worker-0", "1 of 2 pods")
	w.members(join, "job-master-0")
	w.ranks("job-master-0", "job-worker-0")
}

func jobSetInPodGroup(w *world) {
	w.owner(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: both}
spec: {minMember: 9}
`)
	js := makeJobSet("both", w.replicated("worker", "sleep 2", 2, resources("1", "0")))
	js.Spec.ReplicatedJobs[0].Template.Spec.Template.Labels = map[string]string{wellknown.LabelPodGroup: "both"}
	w.create(js)
	w.waitJobSet("both", jobset.JobSetCompleted)
	for _, p := range w.jobSetPods("both") {
		assert.True(w, strings.HasPrefix(p.Annotations[wellknown.AnnotationGang], "jobset/"), p.Annotations)
	}
}
