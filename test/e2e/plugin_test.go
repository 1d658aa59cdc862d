package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestPlugin is kubectl-gangline in the hands of a user who has the rights that its
// documentation asks for, in one namespace, and no others.
func TestPlugin(t *testing.T) {
	t.Parallel()
	env := environment(t, "plugin", "slurm", 2, nil)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		// The first one needs the whole partition, the last one restarts the node.
		{"a gang's way from the queue to its end is told", pluginTells},
		{"a failure and a refusal are explained", pluginExplainsEnds},
		{"a shell, and commands", pluginShell},
		{"a gang's logs are followed over all that happens, each line once", pluginFollows},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env).withUser()) })
	}
}

// user is whom the plugin is run as.
const user = "ada"

// withUser gives the user the rights of docs/plugin.md in the namespace.
func (w *world) withUser() *world {
	w.Helper()
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"jobset.x-k8s.io"}, Resources: []string{"jobsets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"trainer.kubeflow.org"}, Resources: []string{"trainjobs"}, Verbs: []string{"get", "list", "watch"}},
	}
	w.create(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "gangs"}, Rules: rules},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "gangs"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gangs"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	return w
}

// gangline prepares the plugin as kubectl runs it.
func (w *world) gangline(args ...string) *exec.Cmd {
	bin := filepath.Join(root(), "bin")
	args = slices.Concat([]string{"gangline", args[0], "-n", w.namespace, "--as", user}, args[1:])
	cmd := exec.CommandContext(w.Context(), filepath.Join(bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+control.Kubeconfig(), "PATH="+bin+":"+os.Getenv("PATH"))
	return cmd
}

// plugin runs the plugin, and returns what it has printed.
func (w *world) plugin(args ...string) (out, errs string, err error) {
	var o, e bytes.Buffer
	cmd := w.gangline(args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// asks runs the plugin, which must succeed.
func (w *world) asks(args ...string) string {
	w.Helper()
	out, errs, err := w.plugin(args...)
	require.NoError(w, err, errs)
	return out
}

// hears waits until an answer of the plugin's has all these parts.
func (w *world) hears(args []string, parts ...string) string {
	w.Helper()
	var out string
	w.eventually(fmt.Sprintf("%v says %q", args, parts), func(context.Context) (bool, string) {
		o, errs, err := w.plugin(args...)
		out = o
		return err == nil && containsAll(o, parts...), o + errs
	})
	return out
}

func pluginTells(w *world) {
	w.create(w.makePod("wall", "sleep 600", resources("5", "0")))
	w.waitPhase("wall", corev1.PodRunning)
	w.create(makeJobSet("both", w.replicated("worker", "sleep 2", 2, resources("5", "1"))))

	text := w.hears([]string{"why", "both"}, "JobSet both (2 pods) waits in the queue since", "PENDING (Resources)", "it is next")
	assert.NotContains(w, text, "\n\n", "one paragraph")
	row := strings.Fields(w.asks("gangs", "both", "--no-headers"))
	waiting := w.jobSetPods("both")[0]
	job := waiting.Annotations[wellknown.AnnotationJobID]
	assert.Equal(w, []string{"jobset/both", "0/2", job, "Queued", "Resources", "<none>"}, row[:6])

	assert.Regexp(w, `plugin +1 +`+w.namespace+` +jobset/both +2 +`+job+` +Resources`, w.asks("queue"))
	assert.Contains(w, w.asks("why", "pod", waiting.Name), "Pod "+waiting.Name+" (jobset/both, rank ")
	_, errs, err := w.plugin("ssh", waiting.Name)
	require.Error(w, err)
	assert.Contains(w, errs, "does not run: it is Queued")
	_, errs, err = w.plugin("gangs", "-A")
	require.Error(w, err)
	assert.Contains(w, errs, "you may not list pods in all namespaces: name one of yours")
	out, errs, err := w.plugin("top")
	require.NoError(w, err)
	assert.Contains(w, out, "pod/wall")
	assert.Contains(w, out, "5000m", "what was asked for")
	assert.Contains(w, errs, "is not known", "what is used, without the right to know")

	watch := w.gangline("gangs", "-w", "both")
	seen := &screen{}
	watch.Stdout, watch.Stderr = seen, w.Output()
	require.NoError(w, watch.Start())
	w.must("delete", "pod", "wall", "--grace-period=1")
	w.waitJobSet("both", jobset.JobSetCompleted)
	w.eventually("the watch has seen it all", func(context.Context) (bool, string) {
		text := seen.text()
		return containsAll(text, "Queued", "Running", "Completed"), text
	})
	require.NoError(w, watch.Process.Signal(os.Interrupt))
	require.NoError(w, watch.Wait(), "it ends well when it is told to")
	assert.Regexp(w, `^JobSet both \(2 pods\) has completed at .* after [23456]s\.`, w.asks("why", "jobset/both"))

	var list struct{ Items []gangs.Gang }
	require.NoError(w, json.Unmarshal([]byte(w.asks("gangs", "both", "-o", "json")), &list))
	require.Len(w, list.Items, 1)
	g := list.Items[0]
	assert.Equal(w, "jobset/both", g.Ref())
	assert.Equal(w, gangs.Completed, g.State)
	assert.Equal(w, []int{0, 1}, []int{*g.Pods[0].Rank, *g.Pods[1].Rank})
	assert.Len(w, g.HPCNodes, 2)
	assert.NotNil(w, g.Submitted)

	// kubectl asks a program of another name for completions.
	dir := w.TempDir()
	require.NoError(w, os.Symlink(filepath.Join(root(), "bin", "kubectl-gangline"), filepath.Join(dir, "kubectl_complete-gangline")))
	complete := exec.CommandContext(w.Context(), filepath.Join(root(), "bin", "kubectl"), "__complete", "gangline", "logs", "-n", w.namespace, "jobset/")
	complete.Env = append(os.Environ(), "KUBECONFIG="+control.Kubeconfig(), "PATH="+dir+":"+filepath.Join(root(), "bin")+":"+os.Getenv("PATH"))
	words, err := complete.Output()
	require.NoError(w, err)
	assert.Contains(w, string(words), "jobset/both\n")
}

func pluginExplainsEnds(w *world) {
	bad := w.makePod("bad", "", resources("1", "0"))
	bad.Spec.Containers[0].Command = nil
	missing := w.makePod("missing", "", resources("1", "0"))
	missing.Spec.Containers[0].Command = []string{"/no/such/program"}
	js := makeJobSet("halves", w.replicated("worker", `[ "$JOB_COMPLETION_INDEX" = 0 ] && sleep 600; echo broken; exit 3`, 2, resources("1", "0")))
	w.create(bad, missing, js)
	w.apply(fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: later, annotations: {gangline.dev/cluster: %s}}
spec: {runtimeRef: {name: torch-distributed-hpc}, suspend: true}`, w.env.Name))
	w.hears([]string{"why", "bad"}, "Pod bad was refused (NoCommand)", "What helps: give the container a command")
	w.hears([]string{"why", "missing"}, "Pod missing has failed", "What helps: the program was not found on the HPC node")
	w.hears([]string{"why", "trainjob/later"}, "TrainJob later was created at", "is suspended: it has no pods", "resume it")
	w.waitJobSet("halves", jobset.JobSetFailed)
	_, errs, err := w.plugin("why", "nothing")
	require.Error(w, err)
	assert.Contains(w, errs, "there is no gang nothing in namespace "+w.namespace)
	w.must("delete", "pods,jobsets,trainjobs", "--all", "--grace-period=1")
}

func pluginShell(w *world) {
	js := makeJobSet("duo", w.replicated("worker", "sleep 600", 2, resources("1", "0")))
	w.create(js)
	for _, p := range w.waitAll("duo", corev1.PodRunning, 2) {
		assert.Equal(w, p.Annotations[wellknown.AnnotationRank]+"\n",
			w.asks("ssh", "--rank", p.Annotations[wellknown.AnnotationRank], "duo", "printenv", "GANGLINE_RANK"))
		assert.Equal(w, "a  b; $HOME\n", w.asks("ssh", p.Name, "echo", "a  b; $HOME"), "no shell has read it")
	}
	cmd := w.gangline("ssh", "jobset/duo", "cat")
	cmd.Stdin = strings.NewReader("from here\n")
	out, err := cmd.Output()
	require.NoError(w, err)
	assert.Equal(w, "from here\n", string(out))
	_, errs, err := w.plugin("ssh", "duo", "sh", "-c", "echo oh >&2; exit 5")
	var exit *exec.ExitError
	require.True(w, errors.As(err, &exit), "%v", err)
	assert.Equal(w, 5, exit.ExitCode())
	assert.Equal(w, "oh\n", errs)

	y := w.sitDownAt(w.gangline("ssh", "duo"))
	y.types("tty; echo $0; echo sum $((40+2))\r")
	y.sees("/dev/pts/")
	y.sees("sum 42\r\n")
	y.types("until stty size | grep 44; do sleep 0.1; done\r")
	y.resize(111, 44)
	y.sees("44 111\r\n")
	y.types("echo $((1+1)) s; sleep 1000\r")
	y.sees("2 s\r\n")
	y.types("\x03") // Ctrl-C, which throws away what was typed
	y.sees("^C")
	y.types("\recho interrupted $?\r")
	y.sees("interrupted 130")
	y.types("exit 6\r")
	assert.Equal(w, 6, y.exitCode(), y.shown())
	w.must("delete", "jobset", "duo")
}

// sitDownAt is sitDown for any program.
func (w *world) sitDownAt(cmd *exec.Cmd) *typist {
	w.Helper()
	y := &typist{world: w, cmd: cmd, ended: make(chan error, 1)}
	y.cmd.Env = append(y.cmd.Env, "TERM=xterm")
	var err error
	y.terminal, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 30})
	require.NoError(w, err)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(y, y.terminal) // ends with EIO when the program has
	}()
	go func() {
		err := y.cmd.Wait()
		<-read
		y.ended <- err
	}()
	w.Cleanup(func() { _ = y.terminal.Close() })
	return y
}

// pluginFollows follows a JobSet whose first attempt fails, while containers are started
// again, and while gangline-node is restarted.
func pluginFollows(w *world) {
	js := makeJobSet("tries", w.replicated("worker", `
i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo "$JOB_COMPLETION_INDEX $ATTEMPT $i"; sleep 0.1; done
case $ATTEMPT$JOB_COMPLETION_INDEX in
  00) sleep 600;;
  01) exit 1;;
  10) [ -e /kept/again ] || { touch /kept/again; exit 9; };;
esac`, 2, resources("1", "0")))
	js.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: 1}
	pod := &js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "kept", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &pod.Containers[0]
	c.VolumeMounts = []corev1.VolumeMount{{Name: "kept", MountPath: "/kept"}}
	c.Env = []corev1.EnvVar{{Name: "ATTEMPT", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + wellknown.LabelRestartAttempt + "']"},
	}}}
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{9}},
	}}
	w.create(js)

	follower, seen := w.gangline("logs", "-f", "jobset/tries"), &screen{}
	follower.Stdout, follower.Stderr = seen, w.Output()
	require.NoError(w, follower.Start())
	ended := make(chan error, 1)
	go func() { ended <- follower.Wait() }()
	w.eventually("the second attempt speaks", func(context.Context) (bool, string) { return strings.Contains(seen.text(), " 1 5\n"), seen.text() })
	require.NoError(w, w.env.Node.Stop())
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.waitJobSet("tries", jobset.JobSetCompleted)
	w.eventually("the follower ends by itself", func(context.Context) (bool, string) {
		select {
		case err := <-ended:
			require.NoError(w, err)
			return true, ""
		default:
			return false, seen.text()
		}
	})

	var got []string
	for line := range strings.Lines(seen.text()) {
		name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "] ")
		require.True(w, ok, line)
		assert.Contains(w, name, "[tries-worker-0-"+text[:1]+"-", "the pod that says it")
		got = append(got, text)
	}
	var want []string
	for _, run := range []string{"0 0", "1 0", "0 1", "0 1", "1 1"} { // one was started again
		for i := range 40 {
			want = append(want, fmt.Sprintf("%s %d", run, i+1))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	// Rank 0 of the first attempt may be stopped before it has said all.
	assert.Equal(w, slices.DeleteFunc(want, firstOfFirst), slices.DeleteFunc(got, firstOfFirst))
}

func firstOfFirst(line string) bool { return strings.HasPrefix(line, "0 0 ") }

// screen is what a program has written so far.
type screen struct{ typist }

func (s *screen) text() string { return s.shown() }
