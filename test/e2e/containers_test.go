package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/registry"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestContainers runs pods in images that the test makes and serves, by each runtime that
// Debian has.
func TestContainers(t *testing.T) {
	t.Parallel()
	var images imagesOf
	env := environment(t, "containers", "slurm", 4, func(c *provider.Config) {
		images.registry = registry.Start(t, registry.Listen(outsideOf(t, c)+":0"))
		c.Containers = provider.ContainersConfig{
			Runtime:  translate.RuntimeHost,
			Allowed:  []string{translate.RuntimeHost, "bubblewrap", "charliecloud", "podman"},
			Runtimes: map[string]provider.RuntimeConfig{"podman": {Options: []string{"--runtime", "runc"}}}, // crun refuses machines with both kinds of cgroups
			Store:    provider.StoreConfig{Dir: filepath.Join(filepath.Dir(c.Spool), "images-{user}")},
			Registries: provider.RegistriesConfig{
				Insecure: []string{images.registry.Host()},
			},
			// The site's MPI and Python: large, and the same for all.
			Binds: []spool.Bind{
				{Source: "/usr", ReadOnly: true}, {Source: "/etc/alternatives", ReadOnly: true}, {Source: "/etc/openmpi", ReadOnly: true},
				{Source: "/no/such/directory"},
			},
		}
	})
	images.push(t, compileRanks(t, t.TempDir())["openmpi"])
	cases := map[string]func(*world){
		"MPI in images on four nodes, which are pulled once": func(w *world) { mpiInImages(w, images) },
		"PyTorch in images":                       func(w *world) { torchInImages(w, images) },
		"images that cannot be had":               func(w *world) { missingImages(w, images) },
		"what the site does not offer is refused": refusedRuntimes,
	}
	for _, name := range []string{"bubblewrap", "charliecloud", "podman"} {
		cases["a pod in its image with "+name] = func(w *world) { runsInImage(w, name, images) }
	}
	runAll(t, env, cases)
}

// outsideOf is this machine's address on the network of a group's HPC nodes.
func outsideOf(t *testing.T, c *provider.Config) string {
	t.Helper()
	conf, err := os.ReadFile(c.Slurm.Conf)
	require.NoError(t, err)
	m := regexp.MustCompile(`SlurmctldHost=\w+\(([\d.]+\.)\d+\)`).FindSubmatch(conf)
	require.NotNil(t, m)
	return string(m[1]) + "254" // see slurm.Cluster.OutsideAddr, which is not there yet
}

// imagesOf are the test's images.
type imagesOf struct {
	registry *registry.Registry
	tool     string // a shell and a few programs, with an entrypoint
	mpi      string // the same and a program of MPI
	ranks    string // that program
}

// Each line is one write: those of two ranks would mix otherwise.
const sumScript = `import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(t)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {t.item()} {open('/etc/image').read()}")
`

func (i *imagesOf) push(t *testing.T, ranks string) {
	t.Helper()
	busybox := registry.Programs(t, "/bin/busybox")
	for _, name := range []string{"sh", "cat", "id", "env", "sleep", "pwd", "echo", "touch", "hostname", "timeout", "mkdir", "rm", "mktemp", "grep", "tr", "true"} {
		busybox = busybox.Symlink("bin/"+name, "busybox")
	}
	files := registry.Files(map[string]string{
		"etc/image": "of the image\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n",
		"work/dir/": "", "tmp/": "", "root/": "", "usr/": "",
		"bin/entry":  "#!/bin/sh\necho entry \"$@\" in $(pwd) with $OF_IMAGE $OF_BOTH $OF_POD\nexec \"$@\"\n",
		"app/sum.py": sumScript,
	})
	config := v1.Config{
		Entrypoint: []string{"/bin/entry"}, Cmd: []string{"echo", "the image's cmd"}, WorkingDir: "/work",
		Env: []string{"PATH=/bin:/usr/bin", "OF_IMAGE=image", "OF_BOTH=image"},
	}
	i.ranks = ranks
	i.tool, i.mpi = i.registry.Image("team/tool:1"), i.registry.Image("team/mpi:1")
	// They share no layer, so each is asked for once.
	all := slices.Concat(busybox, files)
	i.registry.Push("team/tool:1", registry.Image(t, config, all))
	i.registry.Push("team/mpi:1", registry.Image(t, config, slices.Concat(all, registry.Programs(t, ranks, "bash"))))
}

// inImage makes a pod of an image, by a runtime.
func (w *world) inImage(name, runtime, image string, args ...string) *corev1.Pod {
	pod := w.makePod(name, "", resources("1", "0"))
	pod.Annotations = map[string]string{wellknown.AnnotationRuntime: runtime}
	c := &pod.Spec.Containers[0]
	c.Image, c.Command, c.Args = image, nil, args
	return pod
}

// runsInImage is all that a pod of one runtime sees and does.
func runsInImage(w *world, runtime string, images imagesOf) {
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "words"}, Data: map[string]string{"word": "of the ConfigMap\n"}})
	plain := w.inImage("plain", runtime, images.tool)
	args := w.inImage("args", runtime, images.tool, "sh", "-c",
		"cat /etc/image /words/word; id -u; hostname; echo written >/etc/new && cat /etc/new; echo error >&2; echo last >/dev/termination-log; touch $HOME/x && exit 3")
	c := &args.Spec.Containers[0]
	c.WorkingDir = "dir" // of the image's
	c.Env = []corev1.EnvVar{{Name: "OF_BOTH", Value: "pod"}, {Name: "OF_POD", Value: "pod"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "words", MountPath: "/words"}, {Name: "scratch", MountPath: "/new/scratch"}}
	args.Spec.Volumes = []corev1.Volume{
		{Name: "words", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "words"}}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	stays := w.inImage("stays", runtime, images.tool, "sh", "-c",
		"echo kept >/tmp/kept; trap 'echo asked; sleep 1; echo done; exit 0' TERM; echo up; while :; do sleep 0.1; done")
	stays.Spec.TerminationGracePeriodSeconds = ptr.To[int64](20)
	stays.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/tmp/kept"}}}, PeriodSeconds: 1}
	root := w.inImage("root", runtime, images.tool, "sh", "-c", "id -u; touch /etc/x || echo cannot")
	root.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](0), ReadOnlyRootFilesystem: ptr.To(true)}
	w.create(plain, args, w.kept(stays), root)

	w.waitPhase("plain", corev1.PodSucceeded)
	assert.Equal(w, "entry echo the image's cmd in /work with image image\nthe image's cmd\n", w.must("logs", "plain"))

	ended := w.waitPhase("args", corev1.PodFailed)
	status := ended.Status.ContainerStatuses[0]
	assert.EqualValues(w, 3, status.State.Terminated.ExitCode)
	assert.Equal(w, "last\n", status.State.Terminated.Message)
	assert.Regexp(w, `/team/tool@sha256:[0-9a-f]{64}$`, status.ImageID)
	uid := fmt.Sprint(w.env.Slurm.UID())
	if runtime == "podman" {
		uid = "0" // podman's way: root of the image is the user
	}
	log := strings.Replace(w.must("logs", "args"), "error\n", "", 1) // it may come at any place
	assert.Contains(w, log, "in /work/dir with image pod pod\nof the image\nof the ConfigMap\n"+uid+"\nargs\nwritten\n")
	assert.Contains(w, w.must("logs", "args"), "error\n")
	w.waitEvent("args", "Pulled", "")

	w.waitPhase("root", corev1.PodSucceeded)
	assert.Contains(w, w.must("logs", "root"), "\n0\n")
	assert.Contains(w, w.must("logs", "root"), "cannot\n")

	w.waitPod("stays", "is ready", ready)
	assert.Equal(w, "kept\n", w.must("exec", "stays", "--", "cat", "/tmp/kept"))
	assert.Equal(w, "of the image\nstays\n", w.must("exec", "stays", "--", "sh", "-c", "cat /etc/image; hostname"))
	out, err := w.kubectl("exec", "stays", "--", "sh", "-c", "exit 5")
	assert.ErrorContains(w, err, "exit status 5", out)
	_, err = w.kubectl("exec", "stays", "--", "no-such-program")
	assert.Error(w, err)
	w.must("delete", "pod", "stays", "--wait=false")
	over := w.waitPod("stays", "has ended", terminalPhase)
	assert.EqualValues(w, 0, over.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	log = w.must("logs", "stays")
	assert.Contains(w, log, "\nasked\n")
	assert.Contains(w, log, "\ndone\n")
}

func ready(p *corev1.Pod) bool {
	return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
}

// mpiInImages starts ranks on four nodes in images by our SSH service.
func mpiInImages(w *world, images imagesOf) {
	worker := w.replicated("worker", "sleep 600", 3, resources("5", "0"))
	// As in launchScript: Debian's Open MPI may crash on a loaded machine.
	launcher := w.replicated("launcher", fmt.Sprintf(
		`for try in 1 2 3; do out=$(timeout 60 mpirun -x OF_IMAGE %s 2>&1) && break; done; echo "$out"; cat /etc/image`, images.ranks), 1, resources("5", "0"))
	launcher.DependsOn = []jobset.DependsOn{{Name: "worker", Status: jobset.DependencyReady}}
	js := makeJobSet("gang", worker, launcher)
	for i := range js.Spec.ReplicatedJobs {
		js.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec.Containers[0].Image = images.mpi
	}
	js.Annotations = map[string]string{wellknown.AnnotationRuntime: "charliecloud"}
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	js.Spec.FailurePolicy = &jobset.FailurePolicy{}
	w.create(js)
	code, log := w.launchLog()
	assert.EqualValues(w, 0, code, log)
	all := rankLine.FindAllStringSubmatch(log, -1)
	require.Len(w, all, 4, log)
	pods := map[string]bool{}
	for _, r := range all {
		assert.Equal(w, []string{"4", "6"}, r[2:4], "one world")
		pods[r[4]] = true
	}
	assert.Len(w, pods, 4)
	for blob, times := range images.registry.Blobs() {
		assert.Equal(w, 1, times, "%s was pulled once for all nodes and runtimes", blob)
	}
}

// torchInImages trains, as PyTorch's torchrun has it, on two nodes in images.
func torchInImages(w *world, images imagesOf) {
	node := w.replicated("node", "", 2, resources("5", "0"))
	spec := &node.Template.Spec.Template.Spec
	spec.Containers[0].Image = images.mpi
	spec.Containers[0].Command = []string{"bash", "-c",
		"exec torchrun --nnodes 2 --nproc_per_node 2 --node_rank $GANGLINE_RANK --master_addr torch-node-0-0.torch --master_port 29511 /app/sum.py"}
	spec.Containers[0].Env = []corev1.EnvVar{{Name: "PET_REDIRECTS", Value: "2"}, {Name: "PET_TEE", Value: "2"}}
	spec.Volumes = []corev1.Volume{{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}}
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "shm", MountPath: "/dev/shm"}}
	js := makeJobSet("torch", node)
	js.Annotations = map[string]string{wellknown.AnnotationRuntime: "bubblewrap"}
	w.create(js)
	w.waitJobSet("torch", jobset.JobSetCompleted)
	log := ""
	for _, p := range w.jobSetPods("torch") {
		log += w.must("logs", p.Name)
	}
	for rank := range 4 {
		assert.Contains(w, log, fmt.Sprintf("rank %d of 4 sum 10.0 of the image\n", rank))
	}
}

// missingImages are told as kubelet does.
func missingImages(w *world, images imagesOf) {
	reason := func(p *corev1.Pod) string {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
			return ""
		}
		return p.Status.ContainerStatuses[0].State.Waiting.Reason
	}
	absent := w.inImage("absent", "bubblewrap", images.registry.Image("team/absent:1"))
	wrong := w.inImage("wrong", "bubblewrap", "Not/A:Name:1")
	never := w.inImage("never", "bubblewrap", images.registry.Image("team/other:1"))
	never.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	w.create(absent, wrong, never)
	w.waitPod("absent", "tells that the pull has failed", func(p *corev1.Pod) bool { return reason(p) == "ErrImagePull" })
	w.waitPod("absent", "waits to try again", func(p *corev1.Pod) bool { return reason(p) == "ImagePullBackOff" })
	w.waitPod("wrong", "tells that the name is none", func(p *corev1.Pod) bool { return reason(p) == "InvalidImageName" })
	w.waitPod("never", "tells that the image is not to be pulled", func(p *corev1.Pod) bool { return reason(p) == "ErrImageNeverPull" })
	w.waitEvent("absent", "Failed", "Error: ErrImagePull")
	w.waitEvent("absent", "BackOff", "Back-off pulling image")
	// A pod that waits for its image ends at once.
	began := time.Now()
	w.must("delete", "pod", "absent", "wrong", "never")
	w.Logf("pods without images were gone after %s", time.Since(began).Round(time.Millisecond))
}

func refusedRuntimes(w *world) {
	other := w.inImage("other", "apptainer", "busybox")
	user := w.inImage("user", "podman", "busybox")
	user.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1234)}
	w.create(other, user)
	p := w.waitPhase("other", corev1.PodFailed)
	assert.Equal(w, wellknown.ReasonNotAllowed, p.Status.Reason)
	assert.Contains(w, p.Status.Message, "bubblewrap, charliecloud, podman")
	p = w.waitPhase("user", corev1.PodFailed)
	assert.Equal(w, "UnsupportedRunAsUser", p.Status.Reason)
}
