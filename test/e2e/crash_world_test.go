package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// controlPlaneDies kills the API server and all that is with it, while one gang runs and
// another is being submitted.
func controlPlaneDies(outer *world) {
	t := outer.T
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	dir := filepath.Join(runDir, "mortal")
	start := func(flags ...string) *harness.ControlPlane {
		own, err := harness.StartControlPlane(t.Context(), filepath.Join(root(), "bin"), dir, t.Output(), append(flags, "--port="+port)...)
		require.NoError(t, err)
		return own
	}
	own := start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := own.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	another, err := outer.env.Another(t.Context(), "mortal", func(o *harness.NodeOptions) { o.ControlPlane = own })
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			showLog(t, another.Node.LogFile())
		}
		if err := another.Node.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, another)
	w.create(makeJobSet("api-running", w.replicated("worker", w.noting("api-running", "sleep 8; exit 0"), 2, resources("1", "0"))))
	running := w.waitAll("api-running", corev1.PodRunning, 2)
	w.create(makeJobSet("api-new", w.replicated("worker", w.noting("api-new", "sleep 1"), 2, resources("1", "0"))))
	w.eventually("the new gang has pods", func(context.Context) (bool, string) { return len(w.jobSetPods("api-new")) > 0, "" })
	require.NoError(t, own.Kill())
	w.waitAgentDone(running[0]) // nobody hears of it
	start("--fresh=false")
	for _, gang := range []string{"api-running", "api-new"} {
		w.eventually(gang+" has completed", func(context.Context) (bool, string) {
			out, err := w.kubectl("get", "jobset", gang, "-o", "jsonpath={.status.terminalState}")
			return err == nil && out == string(jobset.JobSetCompleted), fmt.Sprint(out, err)
		})
		assert.Len(t, w.noted(gang), 2)
		w.deleteJobSet(gang)
		w.nothingLeft(gang)
	}
}

// TestSpool is about a spool that cannot be written.
func TestSpool(t *testing.T) {
	t.Parallel()
	dir := smallFilesystem(t)
	locks, err := os.MkdirTemp(runDir, "locks-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(locks) })
	require.NoError(t, os.Chmod(locks, 0o777))
	env := environment(t, "spool", "slurm", 2, func(c *provider.Config) { c.Spool, c.Lock = dir, filepath.Join(locks, "lock") })
	for _, test := range []struct {
		name string
		run  func(*world, string)
	}{
		{"what waits and fills the spool can be deleted", fullWhileWaiting},
		{"a full spool is told, and waited for", fullSpool},
		{"what a pod was is not lost while the spool is full", fullWhileRunning},
		{"a read-only spool is told, and waited for", readOnlySpool},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env), dir) })
	}
}

// smallFilesystem is one of some MiB, which the HPC nodes see if they are started later.
func smallFilesystem(t *testing.T) string {
	dir, err := os.MkdirTemp(runDir, "small-")
	require.NoError(t, err)
	uid, gid, _, err := slurm.EnsureUser(t.Context(), "hpcuser")
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=8m,mode=0700,uid=%d,gid=%d", uid, gid)))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting the small filesystem: %v", err)
		}
		_ = os.Remove(dir)
	})
	return dir
}

// fill takes all of the space of a directory's filesystem; the function that it returns
// gives it back.
func fill(w *world, dir string) (empty func()) {
	ballast := filepath.Join(dir, "ballast")
	err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600)
	require.ErrorIs(w, err, unix.ENOSPC)
	return func() { require.NoError(w, os.Remove(ballast)) }
}

func fullSpool(w *world, dir string) {
	empty := fill(w, dir)
	w.create(makeJobSet("full", w.replicated("worker", w.noting("full", "sleep 1"), 2, resources("1", "0"))))
	w.told("full", "no space left on device")
	empty()
	w.waitJobSet("full", jobset.JobSetCompleted)
	assert.Len(w, w.noted("full"), 2)
}

// told waits until all pods of a JobSet, and their Events, say what is wrong.
func (w *world) told(name, wrong string) {
	w.Helper()
	for _, p := range w.waitAll(name, corev1.PodPending, 2) {
		w.waitPod(p.Name, "says "+wrong, func(p *corev1.Pod) bool { return strings.Contains(p.Status.Message, wrong) })
		w.waitEvent(p.Name, wellknown.ReasonSubmissionFailed, wrong)
	}
}

func fullWhileRunning(w *world, dir string) {
	w.create(w.makePod("rich", "sleep 4; exit 3", resources("1", "0")))
	w.waitPhase("rich", corev1.PodRunning)
	empty := fill(w, dir)
	w.waitEmpty("process that runs", func() ([]string, error) { return processesWith("HOSTNAME=rich"), nil })
	<-time.After(2 * time.Second) // by now its agent has tried to write that; a free page may do
	empty()
	pod := w.waitPhase("rich", corev1.PodFailed)
	assert.EqualValues(w, 3, pod.Status.ContainerStatuses[0].State.Terminated.ExitCode)
}

// filledByItself deletes a pod when the directory of its gang takes all the room: no order
// can be written, and room comes by the gang's end alone.
func (w *world) filledByItself(pod, dir string) {
	w.Helper()
	own := filepath.Join(spool.Root(dir).Gangs(), pod+"-*")
	dirs, err := filepath.Glob(own)
	require.NoError(w, err)
	require.Len(w, dirs, 1)
	fill(w, dirs[0])
	w.deleteNow(pod)
	w.gone(pod)
	w.waitEmpty("directory of the gang", func() ([]string, error) { return filepath.Glob(own) })
}

func fullWhileWaiting(w *world, dir string) {
	w.scontrol("update", "partitionname="+closedPartition, "state=down")
	for _, c := range []struct{ pod, annotation, value, reason string }{
		{"refused", wellknown.AnnotationConstraint, "nowhere", wellknown.ReasonSubmissionFailed},
		{"queued", wellknown.AnnotationPartition, closedPartition, wellknown.ReasonQueued},
	} {
		w.create(w.annotated(w.makePod(c.pod, "true", resources("1", "0")), map[string]string{c.annotation: c.value}))
		w.waitPod(c.pod, "shows "+c.reason, func(p *corev1.Pod) bool { return p.Status.Reason == c.reason })
		w.filledByItself(c.pod, dir)
	}
}

// deletedFull deletes a pod that runs: its agent cannot be told.
func deletedFull(w *world, dir string) {
	w.ownNode("crash-full", func(o *harness.NodeOptions) {
		configure := o.Configure
		o.Spool, o.Configure = dir, func(c *provider.Config) { configure(c); c.ReleaseTimeout.Duration = 2 * time.Second }
	})
	w.create(w.makePod("greedy", w.noting("greedy", "sleep 600"), resources("1", "0")))
	pod := w.waitPhase("greedy", corev1.PodRunning)
	w.filledByItself("greedy", dir)
	w.waitEvent("greedy", "FailedKillPod", "no space left on device")
	w.waitJobState(*pod, "CANCELLED")
}

func readOnlySpool(w *world, dir string) {
	remount := func(flags uintptr) error {
		return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|flags, "")
	}
	w.eventually("the spool can be made read-only", func(context.Context) (bool, string) {
		err := remount(unix.MS_RDONLY)
		return err == nil, fmt.Sprint(err) // files of the last test may still be open
	})
	w.create(makeJobSet("fixed", w.replicated("worker", w.noting("fixed", "sleep 1"), 2, resources("1", "0"))))
	w.told("fixed", "read-only file system")
	require.NoError(w, remount(0))
	w.waitJobSet("fixed", jobset.JobSetCompleted)
}
