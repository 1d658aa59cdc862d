package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestStates has Slurm end, stop and hold jobs in every way that it can be made to, and
// looks at what Kubernetes is told: phase, reason, exit code, condition and Event.
func TestStates(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "states", WorkloadManager: "slurm", Nodes: 4, Cgroup: true})
	var cases []sideCase
	for _, row := range endingRows() {
		cases = append(cases, sideCase{row.name, func(w *world) { endsAs(w, row) }})
	}
	const atATime = 6
	sideBySide(t, env, atATime, append(cases, []sideCase{
		{"a job that was requeued does not run twice", requeued},
		{"a job that is held and released", heldAndReleased},
		{"what no node can have is refused at once", unsatisfiable},
		{"what Slurm refuses is shown in its words", refusedBySlurm},
	}...))
	for _, c := range []sideCase{
		{"preempted jobs are tried again at nobody's cost", preempted},
		{"jobs on a node that crashed are tried again at nobody's cost", crashedNode},
		{"jobs for drained nodes wait", drained},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(newWorld(t, env)) })
	}
}

// endingRow is one way in which Slurm or the program ends a job that runs.
type endingRow struct {
	name, pod, script string
	// end does to the running job what ends it; nil where the script does.
	end func(w *world, jobID string)

	reason     string // the pod's
	container  string // the container's reason
	code       int32
	disruption bool
	says       string // what the pod's message holds
}

func endingRows() []endingRow {
	asRoot := func(args ...string) func(*world, string) {
		return func(w *world, jobID string) {
			for i, a := range args {
				if a == "JOB" {
					args[i] = jobID
				}
			}
			_, err := w.env.Slurm.Output(w.Context(), slurm.Head, args...)
			require.NoError(w, err)
		}
	}
	timeout := func(w *world, jobID string) {
		_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "update", "jobid="+jobID, "EndTime=now+3")
		require.NoError(w, err)
	}
	return []endingRow{
		{
			name: "an exit code is the program's own", pod: "exit", script: "sleep 1; exit 3",
			container: "Error", code: 3,
		},
		{
			name: "a time limit", pod: "timeout", script: "sleep 600", end: timeout,
			reason: wellknown.ReasonDeadline, container: "Error", code: 143, says: "time limit",
		},
		{
			name: "a time limit that the program answers with an exit code of its own", pod: "answered",
			script: "trap 'exit 5' TERM; while :; do sleep 0.2; done", end: timeout,
			reason: wellknown.ReasonDeadline, container: "Error", code: 5, says: "time limit",
		},
		{
			name: "a time limit that the program ignores", pod: "ignored",
			script: "trap '' TERM; while :; do sleep 0.2; done", end: timeout,
			reason: wellknown.ReasonDeadline, container: "Error", code: 137, says: "time limit",
		},
		{
			name: "too much memory", pod: "memory", script: "exec tail /dev/zero",
			container: wellknown.ReasonOOMKilled, code: 137,
		},
		{
			name: "cancelled by an administrator", pod: "cancelled", script: "sleep 600", end: asRoot("scancel", "JOB"),
			reason: wellknown.ReasonCancelled, container: "Error", code: 143, says: "CANCELLED",
		},
		{
			name: "cancelled by its own user", pod: "own-cancel", script: "sleep 600",
			end: func(w *world, jobID string) {
				_, err := w.env.Slurm.Run(w.Context(), "scancel", jobID)
				require.NoError(w, err)
			},
			reason: wellknown.ReasonCancelled, container: "Error", code: 143, says: "CANCELLED",
		},
		{
			name: "suspended and resumed", pod: "suspended", script: "sleep 8; exit 6",
			end: func(w *world, jobID string) {
				asRoot("scontrol", "suspend", "JOB")(w, jobID)
				_, err := w.env.Slurm.WaitJob(w.Context(), jobID, "SUSPENDED")
				require.NoError(w, err)
				assert.Equal(w, corev1.PodRunning, w.pod("suspended").Status.Phase)
				asRoot("scontrol", "resume", "JOB")(w, jobID)
			},
			container: "Error", code: 6,
		},
	}
}

func endsAs(w *world, row endingRow) {
	w.create(w.makePod(row.pod, row.script, resources("1", "0")))
	if row.end != nil {
		running := w.waitPhase(row.pod, corev1.PodRunning)
		row.end(w, running.Annotations[wellknown.AnnotationJobID])
	}
	pod := w.waitPhase(row.pod, corev1.PodFailed)
	end := pod.Status.ContainerStatuses[0].State.Terminated
	require.NotNil(w, end)
	seen := fmt.Sprintf("%s %q %+v", pod.Status.Reason, pod.Status.Message, end)
	assert.Equal(w, row.reason, pod.Status.Reason, seen)
	assert.Equal(w, row.container, end.Reason, seen)
	assert.Equal(w, row.code, end.ExitCode, seen)
	assert.Equal(w, row.disruption, disrupted(*pod), seen)
	assert.Contains(w, pod.Status.Message, row.says, seen)
	reason := row.reason
	if reason == "" {
		reason = "Failed"
	}
	w.waitEvent(row.pod, reason, row.says)
}

// requeued has an administrator requeue a job: Slurm refuses that for our jobs, and one
// who insists does not get its pods run a second time.
func requeued(w *world) {
	w.create(w.makePod("requeued", w.noting("requeued", "sleep 20"), resources("1", "0")))
	pod := w.waitPhase("requeued", corev1.PodRunning)
	id := pod.Annotations[wellknown.AnnotationJobID]
	_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "requeue", id)
	require.Error(w, err, "jobs are submitted with --no-requeue")
	for _, args := range [][]string{{"update", "jobid=" + id, "Requeue=1"}, {"requeue", id}} {
		_, err := w.env.Slurm.Output(w.Context(), slurm.Head, append([]string{"scontrol"}, args...)...)
		require.NoError(w, err)
	}
	pod = w.waitPhase("requeued", corev1.PodFailed)
	w.Logf("requeued: %s %q %+v", pod.Status.Reason, pod.Status.Message, pod.Status.ContainerStatuses[0].State.Terminated)
	assert.Equal(w, wellknown.ReasonRequeued, pod.Status.Reason)
	w.waitEmpty("active job", func() ([]string, error) {
		return w.jobsOf("requeued", func(j slurm.Job) bool { return active[j.State] })
	})
	w.noted("requeued")
	assert.True(w, disrupted(*pod), "the site did that, not the program")
}

func heldAndReleased(w *world) {
	pod := w.makePod("held", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationPartition: "high"}
	w.create(w.makePod("hold-wall", "sleep 600", resources("8", "0")), pod)
	queued := w.waitPod("held", "has a job", func(p *corev1.Pod) bool { return p.Annotations[wellknown.AnnotationJobID] != "" })
	id := queued.Annotations[wellknown.AnnotationJobID]
	if _, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "hold", id); err != nil {
		w.Logf("it was quicker: %v", err)
	} else {
		held := w.waitPod("held", "says that it is held", func(p *corev1.Pod) bool {
			return containsAll(p.Status.Message, "JobHeldAdmin") || terminalPhase(p) // Slurm had chosen its nodes already
		})
		if !terminalPhase(held) {
			_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "release", id)
			require.NoError(w, err)
		}
	}
	w.waitPhase("held", corev1.PodSucceeded)
	w.deleteNow("hold-wall")
}

func unsatisfiable(w *world) {
	w.create(w.makePod("giant", "true", resources("64", "0")))
	w.waitPod("giant", "is refused", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed || containsAll(p.Status.Message, "cannot")
	})
}

func refusedBySlurm(w *world) {
	pod := w.makePod("featureless", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationConstraint: "no-such-feature"}
	w.create(pod)
	w.waitPod("featureless", "shows Slurm's words", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && containsAll(p.Status.Message, "Invalid feature specification")
	})
	w.waitEvent("featureless", wellknown.ReasonSubmissionFailed, "Invalid feature specification")
	w.deleteNow("featureless")
	w.waitGone("featureless")
}

// tolerant is a Job that fails with its first failed pod, but counts no disruption.
func (w *world) tolerant(name, script, partition string, r corev1.ResourceRequirements) *batchv1.Job {
	job := w.makeJob(name, script, r)
	job.Spec.Template.Annotations = map[string]string{wellknown.AnnotationPartition: partition}
	job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		}},
	}}}
	return job
}

// jobPod waits until a Job has a pod in a phase.
func (w *world) jobPod(job string, phase corev1.PodPhase) corev1.Pod {
	w.Helper()
	var found corev1.Pod
	w.eventually(fmt.Sprintf("Job %s has a pod that is %s", job, phase), func(context.Context) (bool, string) {
		pods := w.pods(batchv1.JobNameLabel, job)
		for _, p := range pods {
			if p.Status.Phase == phase {
				found = p
				return true, ""
			}
		}
		return false, fmt.Sprint(podsInWords(pods))
	})
	return found
}

// ignored waits until a Job has made another pod, and checks that the first counts for
// nothing.
func (w *world) ignored(name, reason string) {
	w.Helper()
	job := &batchv1.Job{}
	w.eventually("the Job has another pod", func(ctx context.Context) (bool, string) {
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, job); err != nil {
			return false, err.Error()
		}
		return job.Status.Active == 1 && len(w.pods(batchv1.JobNameLabel, name)) == 2, fmt.Sprintf("%+v", job.Status)
	})
	assert.Zero(w, job.Status.Failed, "podFailurePolicy has ignored the disruption")
	failed := w.jobPod(name, corev1.PodFailed)
	assert.Equal(w, reason, failed.Status.Reason)
	assert.True(w, disrupted(failed))
	w.waitEvent(failed.Name, reason, "")
}

// preempted has jobs of the partition "high" take the nodes of two others: those of one
// are cancelled, those of the other would be requeued, which ours never are.
func preempted(w *world) {
	_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "update", "partitionname="+closedPartition, "state=up")
	require.NoError(w, err)
	all := resources("8", "0")
	for _, partition := range []string{closedPartition, "low"} {
		w.create(w.tolerant(partition, "sleep 600", partition, all), w.tolerant(partition+"2", "sleep 600", partition, all))
	}
	for _, name := range []string{closedPartition, closedPartition + "2", "low", "low2"} {
		w.jobPod(name, corev1.PodRunning)
	}
	urgent := makeJobSet("urgent", w.replicated("worker", "sleep 600", 4, all))
	urgent.Spec.ReplicatedJobs[0].Template.Spec.Template.Annotations = map[string]string{wellknown.AnnotationPartition: "high"}
	w.create(urgent)
	w.waitAll("urgent", corev1.PodRunning, 4)
	for _, name := range []string{closedPartition, "low"} {
		w.ignored(name, wellknown.ReasonPreempted)
	}
	w.deleteJobSet("urgent")
	w.clear()
}

// clear deletes the Jobs of the test and waits until their pods are gone.
func (w *world) clear() {
	w.Helper()
	require.NoError(w, w.client.DeleteAllOf(w.Context(), &batchv1.Job{}, client.InNamespace(w.namespace), client.PropagationPolicy("Background")))
	w.waitEmpty("pod", func() ([]string, error) {
		list := &corev1.PodList{}
		err := w.client.List(w.Context(), list, client.InNamespace(w.namespace))
		return podsInWords(list.Items), err
	})
}

func crashedNode(w *world) {
	w.create(w.tolerant("unlucky", "sleep 600", "batch", resources("8", "0")))
	pod := w.jobPod("unlucky", corev1.PodRunning)
	node := pod.Annotations[wellknown.AnnotationHPCNode]
	require.NoError(w, w.env.Slurm.Crash(w.Context(), node))
	w.ignored("unlucky", wellknown.ReasonNodeFailure)
	w.jobPod("unlucky", corev1.PodRunning) // elsewhere
	require.NoError(w, w.env.Slurm.Restart(w.Context(), node))
	w.clear()
}

func drained(w *world) {
	nodes, err := w.env.Slurm.NodeStates(w.Context())
	require.NoError(w, err)
	for node := range nodes {
		_, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "update", "nodename="+node, "state=drain", "reason=test")
		require.NoError(w, err)
	}
	w.create(w.makePod("patient", "true", resources("1", "0")))
	w.waitPod("patient", "names the reason", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodPending && containsAll(p.Status.Message, "PENDING", "Nodes required for job are DOWN, DRAINED")
	})
	w.resumeNodes()
	w.waitPhase("patient", corev1.PodSucceeded)
}
