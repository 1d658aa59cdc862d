package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// patience is how long a test waits for what takes seconds, or minutes on a machine that is
// slow or has much else to do.
const patience = 4 * time.Minute

// world is one test's namespace on its group's virtual node.
type world struct {
	*testing.T
	env       *harness.Environment
	client    client.Client
	namespace string
}

var namespaces atomic.Int32

// newWorld makes a namespace that goes with the test.
func newWorld(t *testing.T, env *harness.Environment) *world {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", env.ControlPlane.Kubeconfig())
	require.NoError(t, err)
	config.QPS, config.Burst = 100, 200
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	require.NoError(t, jobset.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w := &world{T: t, env: env, client: c, namespace: fmt.Sprintf("t%d", namespaces.Add(1))}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.eventually("the namespace has its default ServiceAccount", func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, fmt.Sprint(err)
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			out, _ := env.ControlPlane.Kubectl(ctx, "", "describe", "pods", "-n", w.namespace)
			t.Log(out)
		}
		if err := c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return w
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		if _, cluster := o.(*corev1.Namespace); !cluster {
			o.SetNamespace(w.namespace)
		}
		require.NoError(w, w.client.Create(w.Context(), o))
	}
}

// kubectl runs kubectl in the test's namespace.
func (w *world) kubectl(args ...string) (string, error) {
	return w.env.ControlPlane.Kubectl(w.Context(), "", append([]string{"-n", w.namespace}, args...)...)
}

// must runs kubectl, which must succeed.
func (w *world) must(args ...string) string {
	w.Helper()
	out, err := w.kubectl(args...)
	require.NoError(w, err)
	return out
}

// eventually waits until a condition holds; what it last saw goes into the
// failure.
func (w *world) eventually(what string, condition func(context.Context) (ok bool, seen string)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		ok, seen := condition(ctx)
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			require.Failf(w, "waited in vain", "%s; last seen: %s", what, seen)
		case <-ticker.C:
		}
	}
}

// pod reads a pod.
func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	require.NoError(w, w.client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, pod))
	return pod
}

// pods lists the pods with a label.
func (w *world) pods(label, value string) []corev1.Pod {
	w.Helper()
	list := &corev1.PodList{}
	require.NoError(w, w.client.List(w.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{label: value}))
	return list.Items
}

// jobSetPods are the pods of a JobSet.
func (w *world) jobSetPods(name string) []corev1.Pod { return w.pods(jobset.JobSetNameKey, name) }

// waitPod waits until a pod is as it should be, and returns it.
func (w *world) waitPod(name, what string, good func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	w.eventually(fmt.Sprintf("pod %s %s", name, what), func(ctx context.Context) (bool, string) {
		pod = &corev1.Pod{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pod); err != nil {
			return false, err.Error()
		}
		return good(pod), fmt.Sprintf("%s %s %q", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	})
	return pod
}

func (w *world) waitPhase(name string, phase corev1.PodPhase) *corev1.Pod {
	w.Helper()
	return w.waitPod(name, "is "+string(phase), func(p *corev1.Pod) bool { return p.Status.Phase == phase })
}

// waitGone waits until a pod is no more.
func (w *world) waitGone(name string) {
	w.Helper()
	w.eventually("pod "+name+" is gone", func(ctx context.Context) (bool, string) {
		pod := &corev1.Pod{}
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pod)
		return apierrors.IsNotFound(err), fmt.Sprintf("%v %s %v", err, pod.Status.Phase, pod.Finalizers)
	})
}

// waitAll waits until a JobSet has so many pods in a phase.
func (w *world) waitAll(name string, phase corev1.PodPhase, count int) []corev1.Pod {
	w.Helper()
	var good []corev1.Pod
	w.eventually(fmt.Sprintf("JobSet %s has %d pods that are %s", name, count, phase), func(context.Context) (bool, string) {
		good = nil
		seen := ""
		for _, p := range w.jobSetPods(name) {
			seen += fmt.Sprintf("%s %s %q; ", p.Name, p.Status.Phase, p.Status.Message)
			if p.Status.Phase == phase && p.DeletionTimestamp == nil {
				good = append(good, p)
			}
		}
		return len(good) == count, seen
	})
	return good
}

func (w *world) waitJobSet(name string, condition jobset.JobSetConditionType) {
	w.Helper()
	w.eventually(fmt.Sprintf("JobSet %s is %s", name, condition), func(ctx context.Context) (bool, string) {
		js := &jobset.JobSet{}
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, js); err != nil {
			return false, err.Error()
		}
		return js.Status.TerminalState == string(condition), fmt.Sprintf("%+v", js.Status)
	})
}

// jobs are the workload manager's jobs of the pods' allocations, by id.
func (w *world) jobs(pods ...corev1.Pod) map[string]slurm.Job {
	w.Helper()
	names := map[string]bool{}
	for _, p := range pods {
		names[p.Annotations[wellknown.AnnotationAllocation]] = true
	}
	return w.jobsNamed(names)
}

func (w *world) jobsNamed(names map[string]bool) map[string]slurm.Job {
	w.Helper()
	list, err := w.env.Jobs(w.Context())
	require.NoError(w, err)
	jobs := map[string]slurm.Job{}
	for _, j := range list {
		if names[j.Name] {
			jobs[j.ID] = j
		}
	}
	return jobs
}

// waitJobGone waits until none of the pod's jobs is active any more.
func (w *world) waitJobGone(pods ...corev1.Pod) {
	w.Helper()
	w.eventually("the job has ended", func(context.Context) (bool, string) {
		jobs := w.jobs(pods...)
		for _, j := range jobs {
			if active[j.State] {
				return false, fmt.Sprint(jobs)
			}
		}
		return true, ""
	})
}

// active are the states of jobs that have not ended: Slurm's and Flux's.
var active = map[string]bool{
	"PENDING": true, "CONFIGURING": true, "RUNNING": true, "COMPLETING": true, "SUSPENDED": true,
	"NEW": true, "DEPEND": true, "PRIORITY": true, "SCHED": true, "RUN": true, "CLEANUP": true,
}

// events are the reasons and messages of a pod's Events, in one text.
func (w *world) events(pod string) string {
	w.Helper()
	list := &corev1.EventList{}
	require.NoError(w, w.client.List(w.Context(), list, client.InNamespace(w.namespace)))
	var text strings.Builder
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod {
			fmt.Fprintf(&text, "%s: %s\n", e.Reason, e.Message)
		}
	}
	return text.String()
}

// waitEvent waits until a pod has an Event of a reason that says something.
func (w *world) waitEvent(pod, reason, says string) {
	w.Helper()
	w.eventually(fmt.Sprintf("pod %s has an Event %s that says %q", pod, reason, says), func(context.Context) (bool, string) {
		events := w.events(pod)
		for line := range strings.Lines(events) {
			if strings.HasPrefix(line, reason+": ") && strings.Contains(line, says) {
				return true, ""
			}
		}
		return false, events
	})
}

// waitJobState waits until the pod's Slurm job is in a state.
func (w *world) waitJobState(pod corev1.Pod, state string) {
	w.Helper()
	w.eventually("the job is "+state, func(context.Context) (bool, string) {
		job := w.jobs(pod)[pod.Annotations[wellknown.AnnotationJobID]]
		return job.State == state, job.State
	})
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// waitAgentDone waits until the pod's process has ended as its agent sees
// it, while no provider looks.
func (w *world) waitAgentDone(pod corev1.Pod) {
	w.Helper()
	dir := spool.Root(w.env.Node.Spool()).Dir(pod.Annotations[wellknown.AnnotationAllocation])
	w.eventually("the agent has seen the end", func(context.Context) (bool, string) {
		var status spool.Status
		_, err := spool.Read(dir.Status(0), &status)
		return err == nil && status.Pod != nil && status.Pod.Done, fmt.Sprint(err)
	})
}
