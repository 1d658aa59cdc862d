package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/plugin/explain"
	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/plugin/plugintest"
	"github.com/gangline/gangline/test/golden"
)

// now is when everything is asked, in a zone that is not UTC.
var now = time.Date(2026, 1, 2, 13, 0, 0, 0, time.FixedZone("", 3600))

func ago(d time.Duration) time.Time { return now.Add(-d) }

func pod(name string) *plugintest.Builder {
	return plugintest.Pod(name).Created(ago(2*time.Hour)).Gang("k", "JobSet/pi").On("hpc")
}

func queued(name, rank, message string) *plugintest.Builder {
	return pod(name).Rank(rank, "2").Job("57", ago(time.Hour)).Says("Queued", message)
}

func running(name, rank string) *plugintest.Builder {
	return pod(name).Rank(rank, "2").Job("57", ago(time.Hour)).Phase(corev1.PodRunning).HPCNode("hpc" + rank).Started(ago(10 * time.Minute))
}

// of are the facts of a gang of these pods.
func of(pods ...*plugintest.Builder) explain.Facts {
	var list []*corev1.Pod
	for _, p := range pods {
		list = append(list, p.Obj())
	}
	return explain.Facts{Now: now, Gang: &gangs.Group(list)[0]}
}

// onePod asks for the first pod only.
func onePod(f explain.Facts) explain.Facts {
	f.Pod = &f.Gang.Pods[0]
	return f
}

func warned(f explain.Facts, at time.Time, reason, message string) explain.Facts {
	uid := f.Gang.Pods[0].Object.UID
	f.Events = append(f.Events, corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: uid},
	})
	return f
}

func trainJob(change func(*v1alpha1.TrainJob)) explain.Facts {
	tj := &v1alpha1.TrainJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "llm", UID: "tj", CreationTimestamp: metav1.NewTime(ago(time.Hour))}}
	change(tj)
	return explain.Facts{Now: now, TrainJob: tj}
}

func condition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(ago(5 * time.Minute))}
}

func jobSet(restarts int32) *jobset.JobSet {
	return &jobset.JobSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pi", UID: "js", CreationTimestamp: metav1.NewTime(ago(time.Hour))},
		Status:     jobset.JobSetStatus{Restarts: restarts},
	}
}

const resources = "Slurm job 57 is PENDING (Resources): it is next, and waits for resources to become free"

// cases are one for each thing that can be said.
func cases() map[string]explain.Facts {
	single := plugintest.Pod("single").Created(ago(time.Minute)).Gang("s", "Pod/single").On("hpc")
	restarted := of(running("pi-0", "0"), running("pi-1", "1"))
	restarted.JobSet = jobSet(2)
	failedCreate := explain.Facts{Now: now, JobSet: jobSet(0)}
	failedCreate.Events = []corev1.Event{{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(ago(time.Minute))}, Type: corev1.EventTypeWarning, Reason: "FailedCreate",
		Message: "Error creating: pods \"pi-worker-0-0-\" is forbidden: exceeded quota: gpus", LastTimestamp: metav1.NewTime(ago(time.Minute)),
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Name: "pi-worker-0", UID: "job"},
	}}
	return map[string]explain.Facts{
		"01 in the queue, with an expected start": of(
			queued("pi-0", "0", resources+"; expected to start at 2026-01-02T14:30:00Z").Expected(now.Add(150*time.Minute)),
			queued("pi-1", "1", resources).Expected(now.Add(150*time.Minute))),
		"02 in the queue, without":       of(queued("pi-0", "0", "Slurm job 57 is PENDING (Priority): jobs with a higher priority are before it"), queued("pi-1", "1", resources)),
		"03 one pod of it":               onePod(of(queued("pi-0", "0", resources), queued("pi-1", "1", resources))),
		"04 the gang is not complete":    of(pod("pi-0").Says("WaitingForGang", "1 of 2 pods; missing: pi-1 (it is Pending and has no node: 0/3 nodes are available)")),
		"05 the job is not taken":        of(pod("pi-0").Says("SubmissionFailed", "Slurm cannot take the job: sbatch: error: Invalid account or account/partition combination specified")),
		"06 being handed over":           of(pod("pi-0").Says("Submitting", "allocation pi-1 is being submitted")),
		"07 waits for another gang":      of(pod("pi-0").Says("WaitingForDependency", "the gang is not submitted yet: it depends on JobSet/prepare, which is not submitted yet")),
		"08 the scheduler finds no node": of(plugintest.Pod("web").Created(ago(time.Minute)).Unscheduled("Unschedulable", "0/3 nodes are available: 1 node(s) had untolerated taint {virtual-kubelet.io/provider: gangline}")),
		"09 held by Kueue":               of(plugintest.Pod("web").Created(ago(time.Minute)).Gate("kueue.x-k8s.io/admission")),
		"10 the node does not look":      of(plugintest.Pod("web").Created(ago(5 * time.Minute)).On("hpc")),
		"11 starting":                    of(pod("pi-0").Job("57", ago(time.Hour)).Says("Starting", "Slurm job 57 is RUNNING on hpc[0-1], waiting for its agents to report")),
		"12 a Secret is missing":         of(pod("pi-0").HPCNode("hpc0").Says("CreateContainerConfigError", `secret "password" not found`)),
		"13 runs":                        of(running("pi-0", "0"), running("pi-1", "1")),
		"14 runs in part, and restarted": of(running("pi-0", "0").Restarted(3, ago(time.Minute), 1), queued("pi-1", "1", "").Says("Starting", "")),
		"15 its JobSet was restarted":    restarted,
		"16 is being stopped":            of(running("pi-0", "0").Deleted(now.Add(20 * time.Second))),
		"17 has completed":               of(single.Phase(corev1.PodSucceeded).Started(ago(10*time.Minute)).Terminated(ago(2*time.Minute), 0, "Completed")),
		"18 a program failed first": of(
			running("pi-0", "0").Phase(corev1.PodFailed).Terminated(ago(time.Minute), 143, "Error"),
			running("pi-1", "1").Phase(corev1.PodFailed).Terminated(ago(2*time.Minute), 128, "StartError")),
		"19 out of memory": onePod(of(running("pi-0", "0").Phase(corev1.PodFailed).Terminated(ago(time.Minute), 137, "OOMKilled"))),
		"20 the HPC node failed": of(running("pi-0", "0").Phase(corev1.PodFailed).Terminated(ago(time.Minute), 137, "ContainerStatusUnknown").
			Says("NodeFailure", "Slurm job 57 ended in state NODE_FAIL")),
		"21 refused": of(plugintest.Pod("bad").Created(ago(time.Minute)).On("hpc").Phase(corev1.PodFailed).
			Says("NoCommand", "Pod was rejected: container main has no command")),
		"22 with a warning that says more": warned(of(running("pi-0", "0")), ago(3*time.Minute), "Unhealthy", "Readiness probe failed: connection refused"),
		"23 with one that says the same": warned(of(pod("pi-0").Says("SubmissionFailed", "Slurm cannot take the job: no such partition")), ago(time.Minute),
			"SubmissionFailed", "Slurm cannot take the job: no such partition"),
		"24 with an old one": warned(of(running("pi-0", "0")), ago(3*time.Hour), "Unhealthy", "Readiness probe failed"),
		"25 a TrainJob in Kueue's queue": trainJob(func(tj *v1alpha1.TrainJob) {
			tj.Spec.Suspend, tj.Labels = ptr.To(true), map[string]string{"kueue.x-k8s.io/queue-name": "research"}
		}),
		"26 a suspended TrainJob": trainJob(func(tj *v1alpha1.TrainJob) { tj.Spec.Suspend = ptr.To(true) }),
		"27 a TrainJob without a JobSet": trainJob(func(tj *v1alpha1.TrainJob) {
			tj.Status.Conditions = []metav1.Condition{condition("Failed", "TrainingRuntimeNotSupported", "the runtime torch-old does not exist")}
		}),
		"28 a TrainJob that nobody looks at": trainJob(func(*v1alpha1.TrainJob) {}),
		"29 a JobSet whose pods are refused": failedCreate,
		"30 a TrainJob that is complete": trainJob(func(tj *v1alpha1.TrainJob) {
			tj.Status.Conditions = []metav1.Condition{condition("Complete", "JobsCompleted", "jobset completed successfully")}
		}),
		"31 yesterday": onePod(of(running("pi-0", "0").Started(ago(20 * time.Hour)))),
	}
}

func TestExplain(t *testing.T) {
	all := cases()
	var b strings.Builder
	var order []string
	for name := range all {
		order = append(order, name)
	}
	slices.Sort(order)
	for _, name := range order {
		b.WriteString("== " + name + "\n" + explain.Explain(all[name]).Text + "\n\n")
	}
	golden.Equal(t, "testdata/why.golden", b.String())
}

func TestExplanationForPrograms(t *testing.T) {
	e := explain.Explain(cases()["01 in the queue, with an expected start"])
	assert.Equal(t, "default", e.Namespace)
	assert.Equal(t, "jobset/pi", e.Object)
	assert.Equal(t, gangs.Queued, e.State)
	assert.Equal(t, "57", e.JobID)
	assert.Equal(t, resources, e.Says)
	assert.True(t, e.Since.Time.Equal(ago(time.Hour)))
	assert.True(t, e.ExpectedStart.Time.Equal(now.Add(150*time.Minute)))
	assert.Equal(t, gangs.Suspended, explain.Explain(cases()["26 a suspended TrainJob"]).State)
	assert.Equal(t, gangs.Failed, explain.Explain(cases()["27 a TrainJob without a JobSet"]).State)
}
