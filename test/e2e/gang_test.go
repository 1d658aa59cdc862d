package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// TestGangs is what an ordinary user does on a cluster with room for all.
func TestGangs(t *testing.T) {
	t.Parallel()
	env := environment(t, "gangs", "slurm", 4, nil)
	runAll(t, env, walkingPath())
}

// walkingPath is what works on any node, however it reaches its site.
func walkingPath() map[string]func(*world) {
	return map[string]func(*world){
		"the MPI JobSet of the examples runs on four nodes as one job": mpiJobSet,
		"a single pod":                              singlePod,
		"a pod has its files, names and secrets":    podFiles,
		"the exit code is the Job's":                exitCode,
		"a restarted JobSet keeps its allocation":   restartInPlace,
		"several shapes, and a launcher that rides": shapes,
		"an annotated gang":                         namedGang,
		"deleting a running pod ends its process":   deleteRunning,
		"logs follow":                               logsFollow,
		"exec":                                      execInPod,
		"bad input is explained":                    badInput,
	}
}

func mpiJobSet(w *world) {
	manifest, err := os.ReadFile(filepath.Join(root(), "examples", "mpi-jobset.yaml"))
	require.NoError(w, err)
	// The cluster of the tests has other virtual nodes too.
	mine := strings.ReplaceAll(string(manifest), "{type: virtual-kubelet}", "{kubernetes.io/hostname: "+w.env.Name+"}")
	_, err = control.Kubectl(w.Context(), mine, "-n", w.namespace, "apply", "-f", "-")
	require.NoError(w, err)

	pods := w.waitAll("pi", corev1.PodRunning, 4)
	jobs := w.jobs(pods...)
	assert.Len(w, jobs, 1, "one job for the whole gang")
	hosts := map[string]bool{}
	for _, p := range pods {
		hosts[p.Annotations[wellknown.AnnotationHPCNode]] = true
		assert.Contains(w, jobs, p.Annotations[wellknown.AnnotationJobID])
	}
	assert.Len(w, hosts, 4, "four HPC nodes")

	w.waitJobSet("pi", jobset.JobSetCompleted)
	launchers := w.pods(jobset.ReplicatedJobNameKey, "launcher")
	require.Len(w, launchers, 1)
	log := w.must("logs", launchers[0].Name)
	for _, line := range []string{"pi-worker-0-0.pi slots=2", "pi-worker-0-2.pi slots=2", "pi-launcher-0-0.pi slots=2", "pi is about 3.14159265"} {
		assert.Contains(w, log, line)
	}
	ranks := regexp.MustCompile(`rank \d of 8 in pod (\S+) on HPC node (\S+), GPUs of the pod: \d,\d`).FindAllStringSubmatch(log, -1)
	assert.Len(w, ranks, 8, log)
	nodes, addresses := map[string]bool{}, map[string]bool{}
	for _, rank := range ranks {
		nodes[rank[1]], addresses[rank[2]] = true, true
	}
	assert.Len(w, nodes, 4, "ranks in four pods: %s", log)
	if !w.env.OneMachine() {
		assert.Len(w, addresses, 4, "ranks on four nodes: %s", log)
	}
	w.waitJobGone(pods...)
}

func singlePod(w *world) {
	w.create(w.makePod("hello", "echo hello from $(hostname); sleep 5", resources("1", "1")))
	pod := w.waitPhase("hello", corev1.PodRunning)
	assert.Contains(w, pod.Finalizers, wellknown.Finalizer)
	assert.NotEmpty(w, pod.Status.PodIP)
	assert.NotEmpty(w, pod.Annotations[wellknown.AnnotationHPCNode])
	assert.NotNil(w, pod.Status.StartTime)

	pod = w.waitPhase("hello", corev1.PodSucceeded)
	assert.NotContains(w, pod.Finalizers, wellknown.Finalizer)
	terminated := pod.Status.ContainerStatuses[0].State.Terminated
	require.NotNil(w, terminated)
	assert.EqualValues(w, 0, terminated.ExitCode)
	assert.Equal(w, "Completed", terminated.Reason)
	assert.Equal(w, "hello from hello\n", w.must("logs", "hello"))
	job := pod.Annotations[wellknown.AnnotationJobID]
	w.waitEvent("hello", "Submitted", w.env.Kind()+" job "+job)
	w.waitEvent("hello", "Started", pod.Annotations[wellknown.AnnotationHPCNode])
	w.waitEvent("hello", "Completed", "")
	assert.Contains(w, w.must("describe", "pod", "hello"), wellknown.AnnotationJobID+": "+job)
	w.waitJobGone(*pod)
	assert.Equal(w, "COMPLETED", w.jobs(*pod)[job].State, "released, not cancelled")
	assert.Equal(w, "hello from hello\n", w.must("logs", "hello"), "logs stay after the allocation")
	w.must("delete", "pod", "hello")
	w.waitGone("hello")
}

func podFiles(w *world) {
	w.create(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue", "file.txt": "from a ConfigMap\n"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, StringData: map[string]string{"word": "open-sesame"}},
	)
	pod := w.makePod("files", `
set -e
echo "colour $COLOUR, secret $WORD, pod $POD_NAME at $POD_IP"
cat /etc/settings/file.txt
cat /run/secrets/site/word; echo
cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token
echo scratch > /scratch/x && cat /scratch/x
grep -c files /etc/hosts
env | grep -c '^SLURM' || true`, resources("1", "0"))
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "COLOUR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "colour",
		}}},
		{Name: "WORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "password"}, Key: "word",
		}}},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	c.VolumeMounts = []corev1.VolumeMount{
		{Name: "settings", MountPath: "/etc/settings"}, {Name: "password", MountPath: "/run/secrets/site"}, {Name: "scratch", MountPath: "/scratch"},
	}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	w.create(pod)
	done := w.waitPhase("files", corev1.PodSucceeded)
	assert.Equal(w, strings.Join([]string{
		"colour blue, secret open-sesame, pod files at " + done.Status.PodIP,
		"from a ConfigMap", "open-sesame", w.namespace, "token", "scratch", "1", "0", "",
	}, "\n"), w.must("logs", "files"))

	// Nothing of the secret is readable in the shared filesystem.
	assert.Empty(w, grep(w, w.env.Node.Spool(), "open-sesame"))
}

// grep lists the files below dir that hold a text, logs left out: what a pod
// prints is its own business.
func grep(w *world, dir, text string) []string {
	w.Helper()
	var found []string
	require.NoError(w, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if os.IsNotExist(err) || (err == nil && entry.IsDir()) {
			return nil
		}
		if err != nil || strings.Contains(path, "/logs/") {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func exitCode(w *world) {
	w.create(w.makeJob("three", "echo going; exit 3", resources("1", "0")))
	w.eventually("the Job has failed", func(context.Context) (bool, string) {
		out, err := w.kubectl("get", "job", "three", "-o", `jsonpath={.status.conditions[?(@.type=="Failed")].status}`)
		return err == nil && out == "True", out
	})
	pods := w.pods("batch.kubernetes.io/job-name", "three")
	require.Len(w, pods, 1)
	assert.EqualValues(w, 3, pods[0].Status.ContainerStatuses[0].State.Terminated.ExitCode)
	w.waitEvent(pods[0].Name, "Failed", "exit code 3")
	w.waitJobGone(pods[0])
	job := pods[0].Annotations[wellknown.AnnotationJobID]
	if w.env.Flux != nil {
		code, err := w.env.Flux.ExitCode(w.Context(), job)
		require.NoError(w, err)
		assert.Equal(w, 3, code, "Flux has the exit code")
		return
	}
	w.eventually("Slurm's accounting has the exit code", func(context.Context) (bool, string) {
		data, err := os.ReadFile(w.env.Slurm.LogFile("jobcomp"))
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "JobId="+job+" ") {
				return strings.Contains(line, "ExitCode=3:0"), line
			}
		}
		return false, fmt.Sprint(err)
	})
}

func restartInPlace(w *world) {
	// A worker fails the first time; the JobSet restarts all.
	worker := w.replicated("worker", `test "$ATTEMPT" != 0 || { sleep 5; exit 1; }; sleep 5`, 2, resources("1", "1"))
	worker.Template.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{
		Name: "ATTEMPT", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']",
		}},
	}}
	js := makeJobSet("again", worker)
	js.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: 1}
	w.create(js)
	before := w.waitAll("again", corev1.PodRunning, 2)
	var after []corev1.Pod
	w.eventually("the second attempt's pods run", func(context.Context) (bool, string) {
		after = nil
		for _, p := range w.jobSetPods("again") {
			if p.Labels["jobset.sigs.k8s.io/restart-attempt"] == "1" && p.Status.Phase == corev1.PodRunning {
				after = append(after, p)
			}
		}
		return len(after) == 2, fmt.Sprint(len(after))
	})
	for _, p := range append(before, after...) {
		assert.Equal(w, before[0].Annotations[wellknown.AnnotationJobID], p.Annotations[wellknown.AnnotationJobID], "the same job")
	}
	assert.NotEqual(w, before[0].UID, after[0].UID)
	w.waitJobSet("again", jobset.JobSetCompleted)
	w.waitJobGone(after...)
	assert.Len(w, w.jobs(append(before, after...)...), 1)
}

func shapes(w *world) {
	show := `echo "host $(hostname) gpus [$CUDA_VISIBLE_DEVICES] rank $GANGLINE_RANK of $GANGLINE_SIZE"; cat /etc/mpi/hostfile; sleep 10`
	w.create(makeJobSet("mixed",
		w.replicated("launcher", show, 1, resources("500m", "0")),
		w.replicated("small", show, 4, resources("1", "1")),
		w.replicated("big", show, 1, resources("2", "4")),
	))
	pods := w.waitAll("mixed", corev1.PodRunning, 6)
	hosts, gpus := map[string]string{}, map[string]string{}
	w.waitJobSet("mixed", jobset.JobSetCompleted)
	for _, p := range pods {
		log := w.must("logs", p.Name)
		role := p.Labels[jobset.ReplicatedJobNameKey] + p.Labels["batch.kubernetes.io/job-completion-index"]
		hosts[role] = p.Annotations[wellknown.AnnotationHPCNode]
		gpus[role] = regexp.MustCompile(`gpus \[(.*?)\]`).FindStringSubmatch(log)[1]
		assert.NotContains(w, log, "mixed-launcher-0-0.mixed slots", "a launcher that rides is no MPI host")
		assert.Contains(w, log, "mixed-big-0-0.mixed slots=4")
	}
	assert.Equal(w, hosts["small0"], hosts["launcher0"], "it rides on slot 0's node")
	assert.Empty(w, gpus["launcher0"], "and sees no GPU")
	assert.Len(w, strings.Split(gpus["big0"], ","), 4)
	seen := map[string]bool{}
	for i := range 4 {
		role := fmt.Sprintf("small%d", i)
		place := hosts[role] + " " + gpus[role]
		assert.Regexp(w, `^\d$`, gpus[role], "one GPU for a one-GPU pod")
		assert.False(w, seen[place], "two pods share %s", place)
		seen[place] = true
	}
	leaders := map[string]bool{}
	for id := range w.jobs(pods...) {
		leaders[strings.Split(id, "+")[0]] = true
	}
	assert.Len(w, leaders, 1, "one job, of two components")
}

func namedGang(w *world) {
	for i := range 3 {
		pod := w.makePod(fmt.Sprintf("ring-%d", i), "sleep 2", resources("1", "0"))
		pod.Annotations = map[string]string{wellknown.AnnotationGangName: "ring", wellknown.AnnotationGangSize: "3"}
		if i == 2 {
			w.waitEvent("ring-0", wellknown.ReasonWaitingForGang, "of 3 pods")
			waiting := w.waitPod("ring-0", "waits for its gang", func(p *corev1.Pod) bool {
				return strings.HasPrefix(p.Status.Message, "2 of 3 pods")
			})
			assert.Equal(w, wellknown.ReasonWaitingForGang, waiting.Status.ContainerStatuses[0].State.Waiting.Reason)
		}
		w.create(pod)
	}
	first, last := w.waitPhase("ring-0", corev1.PodSucceeded), w.waitPhase("ring-2", corev1.PodSucceeded)
	assert.Equal(w, first.Annotations[wellknown.AnnotationJobID], last.Annotations[wellknown.AnnotationJobID])
}

func deleteRunning(w *world) {
	marker := filepath.Join(w.env.SharedDir(), "ended-"+w.namespace)
	w.create(w.makePod("trap", `trap 'echo bye > `+marker+`; exit 0' TERM; sleep 600 & wait`, resources("1", "0")))
	pod := w.waitPhase("trap", corev1.PodRunning)
	w.must("delete", "pod", "trap", "--wait=false")
	w.waitGone("trap")
	assert.FileExists(w, marker, "the process was told to end")
	w.waitEvent("trap", "Killing", "grace period 5 s")
	w.waitJobGone(*pod)

	w.create(w.makePod("deaf", `trap '' TERM; while :; do sleep 1; done`, resources("1", "0")))
	pod = w.waitPhase("deaf", corev1.PodRunning)
	w.must("delete", "pod", "deaf", "--wait=false")
	w.waitGone("deaf")
	w.waitJobGone(*pod)
}

func logsFollow(w *world) {
	w.create(w.makePod("talker", `for i in 1 2 3 4 5; do echo line $i; sleep 0.5; done`, resources("1", "0")))
	w.waitPhase("talker", corev1.PodRunning)
	assert.Equal(w, "line 1\nline 2\nline 3\nline 4\nline 5\n", w.must("logs", "-f", "talker"), "until the end, and then it ends")
	assert.Equal(w, "line 5\n", w.must("logs", "--tail=1", "talker"))
	assert.Equal(w, "", w.must("logs", "--tail=0", "talker"))
	assert.Regexp(w, `^\d{4}-\d\d-\d\dT.* line 1\n`, w.must("logs", "--timestamps", "talker"))
	_, err := w.kubectl("logs", "talker", "-c", "nobody")
	assert.ErrorContains(w, err, "nobody")
	_, err = w.kubectl("logs", "--previous", "talker")
	assert.ErrorContains(w, err, "previous terminated container")
}

func execInPod(w *world) {
	pod := w.makePod("host", "sleep 600", resources("1", "0"))
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}}
	w.create(pod)
	w.waitPhase("host", corev1.PodRunning)
	assert.Equal(w, "host blue\n", w.must("exec", "host", "--", "sh", "-c", "echo $(hostname) $COLOUR"))
	out, err := control.Kubectl(w.Context(), "to and fro", "-n", w.namespace, "exec", "-i", "host", "--", "cat")
	require.NoError(w, err)
	assert.Equal(w, "to and fro", out)
	_, err = w.kubectl("exec", "host", "--", "sh", "-c", "exit 7")
	assert.ErrorContains(w, err, "exit code 7")
	w.must("delete", "pod", "host")
}

// badInput: each fault has a reason on the pod and an Event, and nothing stays
// in Slurm.
func badInput(w *world) {
	refused := map[string]struct {
		change func(*corev1.Pod)
		reason string
		says   string
	}{
		"no-command": {func(p *corev1.Pod) { p.Spec.Containers[0].Command = nil }, wellknown.ReasonNoCommand, "command"},
		"too-large":  {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = resources("20", "0") }, wellknown.ReasonDoesNotFit, "20"},
		"partition": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{wellknown.AnnotationPartition: "nowhere"}
		}, wellknown.ReasonUnknownPartition, "nowhere"},
		"privileged": {func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, wellknown.ReasonUnsupported + "Privileged", "privileged"},
		"option": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{wellknown.AnnotationAccount: "x --uid=0"}
		}, wellknown.ReasonBadAnnotation, "account"},
	}
	for name, c := range refused {
		pod := w.makePod(name, "true", resources("1", "0"))
		c.change(pod)
		w.create(pod)
	}
	for name, c := range refused {
		pod := w.waitPhase(name, corev1.PodFailed)
		assert.Equal(w, c.reason, pod.Status.Reason, name)
		assert.Contains(w, pod.Status.Message, c.says, name)
		assert.Empty(w, pod.Annotations[wellknown.AnnotationJobID], name)
		w.waitEvent(name, c.reason, c.says)
	}

	// What only the workload manager can judge is said in its own words. Slurm refuses it,
	// and the pod waits; Flux takes it, and ends the job.
	pod := w.makePod("constraint", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationConstraint: "moonlight"}
	w.create(pod)
	if w.env.Flux != nil {
		assert.Contains(w, w.waitPhase("constraint", corev1.PodFailed).Status.Message, "unsatisfiable")
	} else {
		w.waitEvent("constraint", wellknown.ReasonSubmissionFailed, "Invalid feature specification")
		assert.Equal(w, corev1.PodPending, w.pod("constraint").Status.Phase)
		assert.Contains(w, w.must("describe", "pod", "constraint"), "Invalid feature specification")
	}
	w.must("delete", "pod", "constraint")

	// A gang that never completes waits, and goes without a trace.
	pod = w.makePod("lonely", "true", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationGangName: "duo", wellknown.AnnotationGangSize: "2"}
	w.create(pod)
	w.waitEvent("lonely", wellknown.ReasonWaitingForGang, "1 of 2 pods")
	_, err := w.kubectl("logs", "lonely")
	assert.ErrorContains(w, err, "1 of 2 pods")
	w.must("delete", "pod", "lonely")
	w.waitGone("lonely")

	// hostNetwork is what an HPC node's processes have anyway.
	pod = w.makePod("host-network", "true", resources("1", "0"))
	pod.Spec.HostNetwork = true
	w.create(pod)
	w.waitPhase("host-network", corev1.PodSucceeded)

	// A ConfigMap that comes later is waited for.
	pod = w.makePod("patient", "echo $COLOUR", resources("1", "0"))
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "late"},
	}}}
	w.create(pod)
	w.waitEvent("patient", "Failed", `configmap "late" not found`)
	assert.Equal(w, wellknown.ReasonConfigError, w.pod("patient").Status.ContainerStatuses[0].State.Waiting.Reason)
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string]string{"COLOUR": "green"}})
	w.waitPhase("patient", corev1.PodSucceeded)
	assert.Equal(w, "green\n", w.must("logs", "patient"))
}
