package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// debugger is the status of a pod's only ephemeral container.
func debugger(p *corev1.Pod) corev1.ContainerState {
	if len(p.Status.EphemeralContainerStatuses) != 1 {
		return corev1.ContainerState{}
	}
	return p.Status.EphemeralContainerStatuses[0].State
}

func debugPod(w *world) {
	w.startPod("host", "sleep 600", withScratch, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOUR", Value: "blue"}}
	})
	// A command, in the surroundings of a container.
	y := w.sitDown(nil, "debug", "-it", "host", "--image=busybox", "--target=main", "--container=debugger", "--env=SHAPE=round", "--", "sh")
	y.sees("If you don't see a command prompt")
	y.types("\recho $COLOUR $SHAPE $(hostname); touch /scratch/here; tty\r")
	y.sees("blue round host\r\n/dev/pts/")
	pod := w.pod("host")
	require.NotNil(w, debugger(pod).Running)
	assert.Equal(w, corev1.PodRunning, pod.Status.Phase)
	assert.Equal(w, "/scratch/here\n", w.must("exec", "host", "-c", "main", "--", "ls", "/scratch/here"))
	assert.Equal(w, "blue\n", w.must("exec", "host", "-c", "debugger", "--", "sh", "-c", "echo $COLOUR"))
	y.types("exit 3\r")
	y.exitCode()
	pod = w.waitPod("host", "has a debugger that has ended", func(p *corev1.Pod) bool { return debugger(p).Terminated != nil })
	assert.EqualValues(w, 3, debugger(pod).Terminated.ExitCode)
	assert.Contains(w, w.must("logs", "host", "-c", "debugger"), "blue round host")
	assert.Equal(w, corev1.PodRunning, pod.Status.Phase)
	assert.True(w, pod.Status.ContainerStatuses[0].Ready)

	// No command: a shell. A second debugger joins the first one's statuses.
	y = w.sitDown(transports["SPDY"], "debug", "-it", "host", "--image=busybox")
	y.sees("If you don't see a command prompt")
	y.types("\recho sum $((40+2))\r")
	y.sees("sum 42")
	y.types("exit\r")
	assert.Equal(w, 0, y.exitCode(), y.shown())
	assert.Len(w, w.pod("host").Status.EphemeralContainerStatuses, 2)
	w.must("delete", "pod", "host")
}

func debugRefused(w *world) {
	w.startPod("host", "sleep 600")
	w.must("debug", "host", "--image=busybox", "--container=root", "--profile=sysadmin", "--", "sleep", "600")
	pod := w.waitPod("host", "has a debugger that waits", func(p *corev1.Pod) bool { return debugger(p).Waiting != nil })
	assert.Equal(w, "UnsupportedPrivileged", debugger(pod).Waiting.Reason)
	assert.Contains(w, debugger(pod).Waiting.Message, "spec.ephemeralContainers[0].securityContext.privileged is not supported")
	w.waitEvent("host", "UnsupportedPrivileged", "spec.ephemeralContainers[0].securityContext.privileged")
	assert.Equal(w, corev1.PodRunning, pod.Status.Phase)
	_, err := w.kubectl("exec", "host", "-c", "root", "--", "true")
	assert.ErrorContains(w, err, `container not found ("root")`)

	// The node itself is nobody's to debug.
	out := w.must("debug", "node/"+w.env.Name, "--image=busybox", "--", "sh")
	name := regexp.MustCompile(`node-debugger-\S+`).FindString(out)
	pod = w.waitPhase(name, corev1.PodFailed)
	assert.Equal(w, "UnsupportedHostPID", pod.Status.Reason)
	assert.Contains(w, pod.Status.Message, "a pod may not look into the other processes of an HPC node")
	assert.Contains(w, pod.Status.Message, "hostPath")
}

func debugWaits(w *world) {
	w.startPod("host", "sleep 600")
	profile := filepath.Join(w.TempDir(), "profile.json")
	require.NoError(w, os.WriteFile(profile, []byte(`{"envFrom": [{"secretRef": {"name": "later"}}]}`), 0o600))
	w.must("debug", "host", "--image=busybox", "--container=patient", "--custom="+profile, "--", "sh", "-c", "echo $WORD")
	pod := w.waitPod("host", "has a debugger that waits for its Secret", func(p *corev1.Pod) bool {
		waits := debugger(p).Waiting
		return waits != nil && waits.Reason == "CreateContainerConfigError"
	})
	assert.Contains(w, debugger(pod).Waiting.Message, `secret "later" not found`)
	w.waitEvent("host", "Failed", `Error: secret "later" not found`)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "later"}, StringData: map[string]string{"WORD": "open-sesame"}})
	w.waitPod("host", "has a debugger that has ended", func(p *corev1.Pod) bool { return debugger(p).Terminated != nil })
	assert.Equal(w, "open-sesame\n", w.must("logs", "host", "-c", "patient"))
	assert.Empty(w, grep(w, w.env.Node.Spool(), "open-sesame"), "nothing of it is readable in the shared filesystem")
}

func debuggerLetsGo(w *world) {
	w.startPod("host", "until test -e /scratch/go; do sleep 0.1; done", withScratch)
	w.must("debug", "host", "--image=busybox", "--container=stubborn", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	w.waitPod("host", "has a debugger that runs", func(p *corev1.Pod) bool { return debugger(p).Running != nil })
	w.must("exec", "host", "-c", "main", "--", "touch", "/scratch/go")
	pod := w.waitPhase("host", corev1.PodSucceeded)
	require.NotNil(w, debugger(pod).Terminated)
	assert.EqualValues(w, 137, debugger(pod).Terminated.ExitCode)
	assert.Less(w, debugger(pod).Terminated.FinishedAt.Sub(pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time).Seconds(), 30.0)
}

func debugCopy(w *world) {
	w.startPod("host", "sleep 600")
	y := w.sitDown(nil, "debug", "host", "-it", "--copy-to=copy", "--container=main", "--image=busybox", "--", "sh")
	y.sees("If you don't see a command prompt")
	y.types("\rhostname; exit 2\r")
	y.sees("copy\r\n")
	y.exitCode()
	assert.EqualValues(w, 2, w.waitPhase("copy", corev1.PodFailed).Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

// sameSurroundings: what a session sees is what the container sees.
func sameSurroundings(w *world) {
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "password"}, StringData: map[string]string{"word": "open-sesame"}})
	const look = `echo "$(hostname) $(id -u) [$CUDA_VISIBLE_DEVICES] $(cat /run/secrets/site/word) $(sha256sum < /etc/hosts) $(pwd)"`
	pod := w.makePod("host", look+"; exec sh", resources("500m", "2"))
	withTerminal(pod)
	c := &pod.Spec.Containers[0]
	c.WorkingDir = "/tmp"
	c.VolumeMounts = []corev1.VolumeMount{{Name: "password", MountPath: "/run/secrets/site"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}}}
	w.create(pod)
	w.waitPhase("host", corev1.PodRunning)
	var own string
	w.eventually("the container has looked", func(context.Context) (bool, string) {
		log, err := w.kubectl("logs", "host")
		own, _, _ = strings.Cut(log, "\r\n")
		return strings.Contains(own, "/tmp"), fmt.Sprint(log, err)
	})
	assert.Regexp(w, `^host \d+ \[\d,\d\] open-sesame \w+ +- /tmp$`, own)

	assert.Equal(w, own+"\n", w.must("exec", "host", "--", "sh", "-c", look))
	y := w.sitDown(nil, "attach", "-it", "host")
	y.types("\r" + look + "\r")
	y.sees("$ " + own + "\r\n")
	w.must("debug", "host", "--image=busybox", "--target=main", "--", "sh", "-c", look)
	w.eventually("the debugger has looked", func(context.Context) (bool, string) {
		log, err := w.kubectl("logs", "host", "-c", w.pod("host").Spec.EphemeralContainers[0].Name)
		return log == own+"\n", fmt.Sprint(log, err)
	})
}
