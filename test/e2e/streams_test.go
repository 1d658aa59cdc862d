package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// TestStreams is what kubectl's interactive commands do to pods on the HPC side.
func TestStreams(t *testing.T) {
	t.Parallel()
	env := environment(t, "streams", "local", 2, nil)
	runAll(t, env, map[string]func(*world){
		"exec, by WebSocket and by SPDY":                       execBothWays,
		"exec by Go clients":                                   execFromGo,
		"exec of what cannot run":                              execFails,
		"much output and much input":                           execMuch,
		"kubectl cp":                                           copyFiles,
		"a session on a terminal":                              execTerminal,
		"sessions and forwards outlive an idle time":           idleStreams,
		"a client that dies takes its command with it":         killedClient,
		"kubectl attach to a terminal":                         attachTerminal,
		"kubectl attach by several clients":                    attachSeveral,
		"kubectl attach to what has no input, or does not run": attachElsewhere,
		"kubectl run -it --rm":                                 runInteractive,
		"kubectl run -i with a pipe":                           runPiped,
		"kubectl debug":                                        debugPod,
		"kubectl debug of what is refused":                     debugRefused,
		"kubectl debug with what is to come":                   debugWaits,
		"a debugger does not keep its pod":                     debuggerLetsGo,
		"kubectl debug --copy-to":                              debugCopy,
		"sessions are in the pod's own surroundings":           sameSurroundings,
		"port-forward, by WebSocket and by SPDY":               forwardBothWays,
		"port-forward of a port that nobody listens at":        forwardRefused,
		"port-forward carries much, and each end says its own": forwardMuch,
	}, func(w *world) {
		// What still runs at the end would outlive the virtual node.
		w.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := control.Kubectl(ctx, "", "-n", w.namespace, "delete", "pods", "--all", "--now")
			assert.NoError(w, err)
		})
	})
}

// byTransport runs a test for each of the ways in which kubectl speaks to the API
// server.
func (w *world) byTransport(test func(w *world, transport string, env []string)) {
	for transport, env := range transports {
		w.Run(transport, func(t *testing.T) {
			sub := *w
			sub.T = t
			test(&sub, transport, env)
		})
	}
}

// transports are the ways in which kubectl speaks to the API server.
var transports = map[string][]string{
	"WebSocket": nil,
	"SPDY":      {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false"},
}

// command is kubectl in the test's namespace; it ends with the test.
func (w *world) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.Context(), filepath.Join(root(), "bin", "kubectl"), append([]string{"-n", w.namespace}, args...)...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+control.Kubeconfig()), env...)
	return cmd
}

// startPod makes a pod that runs a script and waits until it runs.
func (w *world) startPod(name, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	pod := w.makePod(name, script, resources("500m", "0"))
	for _, c := range change {
		c(pod)
	}
	w.create(pod)
	return w.waitPhase(name, corev1.PodRunning)
}

func withTerminal(pod *corev1.Pod) {
	c := &pod.Spec.Containers[0]
	c.Stdin, c.TTY = true, true
}

func execBothWays(w *world) {
	w.startPod("host", "sleep 600")
	w.byTransport(func(w *world, _ string, env []string) {
		cmd := w.command(env, "exec", "-i", "host", "--", "sh", "-c", "cat; echo err >&2; exit 7")
		var out, errs strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("to and fro"), &out, &errs
		var exit *exec.ExitError
		require.ErrorAs(w, cmd.Run(), &exit)
		assert.Equal(w, 7, exit.ExitCode())
		assert.Equal(w, "to and fro", out.String())
		assert.Equal(w, "err\ncommand terminated with exit code 7\n", errs.String())
	})
}

// clientConfig is how Go clients reach the control plane.
func (w *world) clientConfig() (*rest.Config, kubernetes.Interface) {
	w.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", control.Kubeconfig())
	require.NoError(w, err)
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	return config, clientset
}

// oneSize is a terminal's size that does not change.
type oneSize struct {
	sizes chan remotecommand.TerminalSize
}

func newSize(width, height uint16) oneSize {
	sizes := make(chan remotecommand.TerminalSize, 1)
	sizes <- remotecommand.TerminalSize{Width: width, Height: height}
	close(sizes) // there will be no other, which some clients tell
	return oneSize{sizes}
}

// Next implements remotecommand.TerminalSizeQueue.
func (o oneSize) Next() *remotecommand.TerminalSize {
	if size, ok := <-o.sizes; ok {
		return &size
	}
	return nil
}

func execFromGo(w *world) {
	w.startPod("host", "sleep 600")
	config, clientset := w.clientConfig()
	for name, dial := range map[string]func(*rest.Request) (remotecommand.Executor, error){
		"SPDY": func(r *rest.Request) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(config, "POST", r.URL())
		},
		"WebSocket": func(r *rest.Request) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(config, "GET", r.URL().String())
		},
	} {
		w.Run(name, func(t *testing.T) {
			request := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(w.namespace).Name("host").SubResource("exec").
				VersionedParams(&corev1.PodExecOptions{
					Command: []string{"sh", "-c", "until stty size | grep -q 33; do sleep 0.1; done; stty size; exit 9"},
					Stdin:   true, Stdout: true, TTY: true,
				}, scheme.ParameterCodec)
			executor, err := dial(request)
			require.NoError(t, err)
			var out strings.Builder
			err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{
				Stdin: strings.NewReader(""), Stdout: &out, Tty: true, TerminalSizeQueue: newSize(99, 33),
			})
			var exit utilexec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, 9, exit.ExitStatus())
			assert.Equal(t, "33 99\r\n", out.String())
		})
	}
}

// execFails: kubelet's words, and a shell's exit codes.
func execFails(w *world) {
	pod := w.makePod("busy", "sleep 600", resources("500m", "0"))
	pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
	pod.Spec.Containers[1].Name, pod.Spec.Containers[1].Command = "brief", []string{"true"}
	w.create(pod)
	w.waitPod("busy", "has a container that runs and one that has ended", func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses
		return len(c) == 2 && c[0].State.Terminated != nil && c[1].State.Running != nil
	})
	w.create(w.makePod("asleep", "sleep 600", resources("500m", "9"))) // more GPUs than there are
	for sentence, tc := range map[string]struct {
		args []string
		says string
		code int
	}{
		"a program that does not exist":    {[]string{"busy", "-c", "main", "--", "nowhere"}, `exec: "nowhere": executable file not found in $PATH`, 1},
		"a file that is no program":        {[]string{"busy", "-c", "main", "--", "/etc/passwd"}, `permission denied`, 1},
		"a shell that finds no program":    {[]string{"busy", "-c", "main", "--", "sh", "-c", "nowhere"}, "exit code 127", 127},
		"a shell that finds a file":        {[]string{"busy", "-c", "main", "--", "sh", "-c", "/etc/passwd"}, "exit code 126", 126},
		"a command that is killed":         {[]string{"busy", "-c", "main", "--", "sh", "-c", "kill -9 $$"}, "exit code 137", 137},
		"a container that has ended":       {[]string{"busy", "-c", "brief", "--", "true"}, `container not found ("brief")`, 1},
		"a container that the pod has not": {[]string{"busy", "-c", "third", "--", "true"}, "container third is not valid for pod busy", 1},
		"a pod that does not exist":        {[]string{"nobody", "--", "true"}, `pods "nobody" not found`, 1},
	} {
		for transport, env := range transports {
			w.Run(sentence+" by "+transport, func(t *testing.T) {
				out, err := w.command(env, append([]string{"exec"}, tc.args...)...).CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, string(out))
				assert.Contains(t, string(out), tc.says)
				assert.Equal(t, tc.code, exit.ExitCode(), string(out))
			})
		}
	}
	waiting := w.makePod("waiting", "sleep 600", resources("500m", "0"))
	waiting.Spec.InitContainers = []corev1.Container{*waiting.Spec.Containers[0].DeepCopy()}
	waiting.Spec.InitContainers[0].Name = "first"
	w.create(waiting)
	w.waitPod("waiting", "runs its init container", func(p *corev1.Pod) bool {
		c := p.Status.InitContainerStatuses
		return len(c) == 1 && c[0].State.Running != nil
	})
	_, err := w.kubectl("exec", "waiting", "-c", "main", "--", "true")
	assert.ErrorContains(w, err, `container not found ("main")`)
	assert.Equal(w, "waiting\n", w.must("exec", "waiting", "-c", "first", "--", "hostname"))
	refused := w.waitPhase("asleep", corev1.PodFailed)
	_, err = w.kubectl("exec", refused.Name, "--", "true")
	assert.ErrorContains(w, err, "completed pod")
}

// zeros is as many bytes, not all of them zero.
func pattern(size int64) io.Reader { return io.LimitReader(counter{}, size) }

type counter struct{}

func (counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

const muchData = 100 << 20

func execMuch(w *world) {
	w.startPod("host", "sleep 600", withScratch)
	w.byTransport(func(w *world, transport string, env []string) {
		sum := sha256.New()
		in := w.command(env, "exec", "-i", "host", "--", "sh", "-c", "tee /scratch/"+transport+" | sha256sum")
		in.Stdin = io.TeeReader(pattern(muchData), sum)
		told, err := in.Output()
		require.NoError(w, err)
		want := hex.EncodeToString(sum.Sum(nil))
		assert.Equal(w, want, strings.Fields(string(told))[0])

		sum = sha256.New()
		out := w.command(env, "exec", "host", "--", "cat", "/scratch/"+transport)
		out.Stdout = sum
		require.NoError(w, out.Run())
		assert.Equal(w, want, hex.EncodeToString(sum.Sum(nil)))
	})
}

// withScratch gives a pod a directory /scratch.
func withScratch(pod *corev1.Pod) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "scratch", MountPath: "/scratch"})
	}
}

func copyFiles(w *world) {
	w.startPod("host", "sleep 600", withScratch)
	dir := w.TempDir()
	require.NoError(w, os.MkdirAll(filepath.Join(dir, "tree", "deep", "er"), 0o755))
	large, err := os.Create(filepath.Join(dir, "tree", "large"))
	require.NoError(w, err)
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(large, sum), pattern(50<<20))
	require.NoError(w, err)
	require.NoError(w, large.Close())
	require.NoError(w, os.WriteFile(filepath.Join(dir, "tree", "deep", "er", "a file"), []byte("small\n"), 0o640))

	w.must("cp", filepath.Join(dir, "tree"), "host:/scratch/copy")
	assert.Equal(w, hex.EncodeToString(sum.Sum(nil)), strings.Fields(w.must("exec", "host", "--", "sha256sum", "/scratch/copy/large"))[0])
	assert.Equal(w, "640 6\n", w.must("exec", "host", "--", "stat", "-c", "%a %s", "/scratch/copy/deep/er/a file"))

	w.must("cp", "host:/scratch/copy", filepath.Join(dir, "back"))
	back, err := os.ReadFile(filepath.Join(dir, "back", "large"))
	require.NoError(w, err)
	assert.Equal(w, sum.Sum(nil), sumOf(back))
	small, err := os.ReadFile(filepath.Join(dir, "back", "deep", "er", "a file"))
	require.NoError(w, err)
	assert.Equal(w, "small\n", string(small))
}

func sumOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// killedClient: kubectl is killed without a chance to say goodbye.
func killedClient(w *world) {
	w.startPod("host", "sleep 600", withScratch)
	w.byTransport(func(w *world, transport string, env []string) {
		file := "/scratch/" + transport
		cmd := w.command(env, "exec", "host", "--", "sh", "-c", "echo $$ > "+file+"; exec sleep 1000")
		require.NoError(w, cmd.Start())
		alive := func(context.Context) (bool, string) {
			out, err := w.kubectl("exec", "host", "--", "sh", "-c", "kill -0 $(cat "+file+")")
			return err == nil, fmt.Sprint(out, err)
		}
		w.eventually("the command runs", alive)
		require.NoError(w, cmd.Process.Kill())
		_ = cmd.Wait()
		w.eventually("the command is gone", func(ctx context.Context) (bool, string) {
			there, seen := alive(ctx)
			return !there, seen
		})
	})
}
