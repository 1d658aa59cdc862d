package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestSecurity is what a neighbour sees of a pod, and what a pod's user can do to others: the
// lines of docs/security.md that take real programs.
func TestSecurity(t *testing.T) {
	t.Parallel()
	env := environment(t, "security", "slurm", 2, nil)
	runAll(t, env, map[string]func(*world){
		"a secret is nowhere in plain text":                    secretIsHidden,
		"a report written a thousand times holds up nobody":    reportsFlood,
		"what is put in a report's place is not followed":      reportReplaced,
		"a node and its agents show nothing to their own user": processesAreClosed,
	})
}

// secretIsHidden looks for a secret wherever others than the pod could look.
func secretIsHidden(w *world) {
	const inEnv, inFile = "plain-a4f1c7e2-env", "plain-a4f1c7e2-file"
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, StringData: map[string]string{"env": inEnv, "file": inFile}})
	// The command must not hold the secret itself.
	pod := w.makePod("keeper", "test $(cat /run/keys/file) = plain-$(echo a4f1c7e2)-file && echo ready; exec sleep 600", resources("1", "0"))
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "env",
	}}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "keys", Items: []corev1.KeyToPath{{Key: "file", Path: "file"}},
	}}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "keys", MountPath: "/run/keys", ReadOnly: true}}
	w.create(pod)
	w.waitPhase("keeper", corev1.PodRunning)
	w.waitLog("keeper", "ready")
	running := w.pod("keeper")
	traces := append(tracesOf("a4f1c7e2-env"), tracesOf("a4f1c7e2-file")...)
	found := func(text []byte) bool {
		return slices.ContainsFunc(traces, func(trace []byte) bool { return bytes.Contains(text, trace) })
	}
	// in tells which files have it, and how many there are in all.
	in := func(dir string) (with []string, looked int) {
		require.NoError(w, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil //nolint:nilerr // it has gone
			}
			if text, err := beginning(path); err == nil {
				looked++
				if found(text) {
					with = append(with, path)
				}
			}
			return nil
		}))
		return with, looked
	}
	dir := spool.Root(w.env.Node.Spool()).Dir(running.Annotations[wellknown.AnnotationAllocation])
	for what, place := range map[string]struct {
		dir   string
		least int // files
	}{
		"the spool": {w.env.Node.Spool(), 3}, "the gang's directory": {string(dir), 3},
		"Slurm's shared directory":   {w.env.Slurm.SharedDir(), 3},
		"Slurm's own files and logs": {w.env.Slurm.Dir(), 3}, "the node's directory and log": {w.env.Node.Dir(), 1},
	} {
		with, looked := in(place.dir)
		assert.Empty(w, with, what)
		assert.GreaterOrEqual(w, looked, place.least, what)
	}
	// The pod's files are in memory, and nobody else's to enter; on the HPC node's disk is none.
	node := nodeOf(dir)
	require.NotEmpty(w, node, "the pod has an agent")
	own := fmt.Sprintf("gangline-%d", w.env.Slurm.UID())
	inMemory, _ := in(filepath.Join(node, "dev/shm", own))
	assert.NotEmpty(w, inMemory, "the pod has its file")
	onDisk, _ := in(filepath.Join(node, "tmp"))
	assert.Empty(w, onDisk)
	for _, place := range []string{"dev/shm", "tmp"} {
		info, err := os.Lstat(filepath.Join(node, place, own))
		require.NoError(w, err)
		assert.Equal(w, fs.ModeDir|0o700, info.Mode(), place)
		assert.EqualValues(w, w.env.Slurm.UID(), info.Sys().(*syscall.Stat_t).Uid, place)
	}
	all, _ := in(filepath.Join(node, "dev/shm"))
	assert.Len(w, all, len(inMemory), "nothing of it is beside that directory")
	job := running.Annotations[wellknown.AnnotationJobID]
	assert.False(w, found([]byte(w.scontrol("show", "job", "--details", job))))
	assert.False(w, found([]byte(w.scontrol("write", "batch_script", job, "-"))))

	// The environment is the container's alone; nobody has it in a command line.
	with := 0
	for _, p := range processes() {
		assert.False(w, found(p.read("cmdline")), "process %d", p)
		if environment := p.read("environ"); found(environment) {
			with++
			assert.Contains(w, string(environment), "GANGLINE_CONTAINER=", "process %d", p)
		}
	}
	assert.Positive(w, with)
	w.must("delete", "pod", "keeper", "--grace-period=1")
}

// tracesOf is what a secret looks like in text: itself, and its base64 wherever in a longer
// value it stands.
func tracesOf(secret string) [][]byte {
	traces := [][]byte{[]byte(secret)}
	for before := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		// A character is 6 bits: those that others' bits are in depend on what is beside it.
		first, last := (before*8+5)/6, (before+len(secret))*8/6
		traces = append(traces, []byte(encoded[first:last]))
	}
	return traces
}

// TestTraces: otherwise nothing would be found, whatever is there.
func TestTraces(t *testing.T) {
	t.Parallel()
	const secret = "a4f1c7e2-file"
	for before := range 7 {
		for after := range 7 {
			text := []byte(strings.Repeat("\xf0", before) + secret + strings.Repeat("?", after))
			encoded := []byte(base64.StdEncoding.EncodeToString(text))
			seen := slices.IndexFunc(tracesOf(secret), func(trace []byte) bool { return bytes.Contains(encoded, trace) })
			assert.Equal(t, 1+before%3, seen, "%d bytes before and %d after", before, after)
		}
	}
}

// beginning reads a file, and not all of one that another case has made very large.
func beginning(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	return io.ReadAll(io.LimitReader(file, 64<<20))
}

// processID is a process of this machine, by its number.
type processID int

func (p processID) path(file string) string { return fmt.Sprintf("/proc/%d/%s", p, file) }

// read reads one of its files, or nothing if it has gone.
func (p processID) read(file string) []byte {
	text, _ := os.ReadFile(p.path(file))
	return text
}

func (p processID) argv() []string {
	return strings.Split(strings.TrimRight(string(p.read("cmdline")), "\x00"), "\x00")
}

// serves tells that it is an agent of a gang's.
func (p processID) serves(dir spool.Dir) bool {
	argv := p.argv()
	return len(argv) > 2 && argv[1] == "serve" && argv[2] == string(dir)
}

// nodeOf is the root directory of an HPC node with an agent of a gang's, "" for none.
func nodeOf(dir spool.Dir) string {
	for _, p := range processes() {
		if p.serves(dir) && !entered(p) {
			return p.path("root")
		}
	}
	return ""
}

func processes() []processID {
	entries, _ := os.ReadDir("/proc")
	var all []processID
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n != os.Getpid() {
			all = append(all, processID(n))
		}
	}
	return all
}

// processesAreClosed: what belongs to root in /proc can be looked into by root alone.
func processesAreClosed(w *world) {
	w.create(w.makePod("open", "exec sleep 601", resources("1", "0")))
	running := w.waitPhase("open", corev1.PodRunning)
	dir := spool.Root(w.env.Node.Spool()).Dir(running.Annotations[wellknown.AnnotationAllocation])
	owner := func(p processID) uint32 {
		info, err := os.Stat(p.path("environ"))
		require.NoError(w, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	assert.EqualValues(w, 0, owner(processID(w.env.Node.PID())), "gangline-node, which runs as an ordinary user")
	agents, others := 0, 0
	for _, p := range processes() {
		switch {
		case strings.Join(p.argv(), " ") == "sleep 601":
			others++
			assert.EqualValues(w, w.env.Slurm.UID(), owner(p), "the pod's own process is its user's to debug")
		case p.serves(dir) && entered(p):
			agents++
			assert.EqualValues(w, 0, owner(p), "the agent")
		}
	}
	assert.Equal(w, []int{1, 1}, []int{agents, others})
	w.must("delete", "pod", "open", "--grace-period=1")
}

// entered tells that an agent is in a user namespace that its parent is not in: it is the one
// of the two that has the keys.
func entered(p processID) bool {
	_, after, _ := strings.Cut(string(p.read("status")), "PPid:")
	parent, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	if err != nil {
		return false
	}
	own, err := os.Readlink(p.path("ns/user"))
	parents, _ := os.Readlink(processID(parent).path("ns/user"))
	return err == nil && own != parents
}

// reportsFlood has a pod's report say something new as often as can be, while another gang
// starts.
func reportsFlood(w *world) {
	w.create(w.makePod("loud", "exec sleep 600", resources("1", "0")))
	loud := w.waitPhase("loud", corev1.PodRunning)
	dir := spool.Root(w.env.Node.Spool()).Dir(loud.Annotations[wellknown.AnnotationAllocation])
	var report spool.Status
	found, err := spool.Read(dir.Status(0), &report)
	require.NoError(w, err)
	require.True(w, found)

	ctx, cancel := context.WithTimeout(w.Context(), 6*time.Second)
	defer cancel()
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			report.Pod.Message = fmt.Sprint("news ", n)
			report.Pod.Events = []spool.Event{{Time: time.Now(), Container: "main", Type: "Warning", Reason: "Loud", Message: report.Pod.Message}}
			text, err := json.Marshal(report)
			if err == nil {
				err = os.WriteFile(dir.Status(0)+".loud", text, 0o644)
			}
			if err == nil {
				err = os.Rename(dir.Status(0)+".loud", dir.Status(0))
			}
			if err != nil {
				w.Errorf("writing a report: %v", err)
				break
			}
		}
		written <- n
	}()
	w.create(w.makePod("quiet", "exec sleep 600", resources("1", "0")))
	w.waitPhase("quiet", corev1.PodRunning)
	assert.Greater(w, <-written, 100)
	told := strings.Count(w.events("loud"), "Loud: ")
	assert.LessOrEqual(w, told, 25, "Events of one agent are bounded")
	w.must("delete", "pod", "loud", "quiet", "--grace-period=1")
	w.waitGone("loud")
}

// reportReplaced puts one thing after the other where an agent's report is: the pod stays as
// it was, its gang can be ended, and others are not held up.
func reportReplaced(w *world) {
	w.create(w.makePod("odd", "exec sleep 600", resources("1", "0")))
	odd := w.waitPhase("odd", corev1.PodRunning)
	dir := spool.Root(w.env.Node.Spool()).Dir(odd.Annotations[wellknown.AnnotationAllocation])
	path := dir.Status(0)
	require.NoError(w, os.Rename(path, path+".kept"))
	for _, put := range []func() error{
		func() error { return os.Symlink("/etc/shadow", path) },
		func() error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<42)) },
		func() error { return unix.Mkfifo(path, 0o666) },
		func() error { return os.WriteFile(path, []byte("root:x:0:0"), 0o644) },
		func() error { return os.Symlink("/dev/zero", path) },
	} {
		log := len(w.nodeLog())
		var placed os.FileInfo
		// The node has looked at it when it says so. The agent may have something to say
		// itself, and put its report there.
		w.eventually("the node has found it", func(context.Context) (bool, string) {
			if now, err := os.Lstat(path); err != nil || placed == nil || !os.SameFile(now, placed) {
				_ = os.Remove(path)
				require.NoError(w, put())
				placed, err = os.Lstat(path)
				require.NoError(w, err)
			}
			return strings.Contains(w.nodeLog()[log:], "could not read an agent's status"), w.nodeLog()[log:]
		})
		require.NoError(w, os.Remove(path))
	}
	assert.NotContains(w, w.nodeLog(), "root:", "nothing of what was found is shown")
	now := w.pod("odd")
	assert.Equal(w, corev1.PodRunning, now.Status.Phase)
	assert.Equal(w, odd.Status.ContainerStatuses, now.Status.ContainerStatuses)
	require.NoError(w, os.Rename(path+".kept", path))
	w.must("delete", "pod", "odd", "--grace-period=1")
	w.waitGone("odd")
}

func (w *world) nodeLog() string {
	w.Helper()
	text, err := os.ReadFile(w.env.Node.LogFile())
	require.NoError(w, err)
	return string(text)
}
