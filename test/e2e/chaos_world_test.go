package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/test/slurm"
)

// ours tells a storm's namespaces from others.
func (s *storm) ours(namespace string) bool {
	return strings.HasPrefix(namespace, s.namespace+"-")
}

// openNamespace makes a namespace for users, who may always be sure of two.
func (s *storm) openNamespace() {
	s.Helper()
	require.NoError(s, s.createNamespace(s.Context()))
}

func (s *storm) createNamespace(ctx context.Context) error {
	name := s.namespace + "-" + s.nextName()
	if err := s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = append(s.namespaces, name)
	return nil
}

func (s *storm) nextName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return fmt.Sprint(s.made)
}

// currentNamespace is one of the two newest.
func (s *storm) currentNamespace(n uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.namespaces[len(s.namespaces)-1-int(n%2)]
}

// replaceNamespace takes one of the two newest away from the users.
func (s *storm) replaceNamespace(n uint64) string {
	name := s.currentNamespace(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.namespaces, name)
	s.namespaces = append([]string{name}, slices.Delete(s.namespaces, at, at+1)...)
	return name
}

func (s *storm) allNamespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.namespaces)
}

func (s *storm) namespacesThere(ctx context.Context) (names []string, err error) {
	list := &corev1.NamespaceList{}
	err = s.client.List(ctx, list)
	for _, n := range list.Items {
		if s.ours(n.Name) {
			names = append(names, fmt.Sprintf("%s %+v", n.Name, n.Status))
		}
	}
	return names, err
}

func (s *storm) podsThere(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := s.client.List(ctx, list)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !s.ours(p.Namespace) }), err
}

// ownersThere are the JobSets, and the Jobs that are not a JobSet's.
func (s *storm) ownersThere(ctx context.Context) (owners []client.Object, err error) {
	sets, jobs := &jobset.JobSetList{}, &batchv1.JobList{}
	err = errors.Join(s.client.List(ctx, sets), s.client.List(ctx, jobs))
	for i := range sets.Items {
		owners = append(owners, &sets.Items[i])
	}
	for i := range jobs.Items {
		if len(jobs.Items[i].OwnerReferences) == 0 {
			owners = append(owners, &jobs.Items[i])
		}
	}
	return slices.DeleteFunc(owners, func(o client.Object) bool { return !s.ours(o.GetNamespace()) }), err
}

func (s *storm) jobsThere(ctx context.Context) (found []string, err error) {
	jobs, err := s.env.Slurm.Squeue(ctx)
	for _, j := range slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !active[j.State] }) {
		found = append(found, fmt.Sprintf("%+v", j))
	}
	return found, err
}

// processesThere are those of agents and pods; the gateway that serves the node stays.
func (s *storm) processesThere() (found []string) {
	for _, p := range s.agentProcesses() {
		found = append(found, p.pid+" "+p.command)
	}
	return append(found, processesWith("CHECK_UID=")...)
}

func listDir(path string) (names []string, err error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// agentDirs are what agents have left on the HPC nodes.
func (s *storm) agentDirs(ctx context.Context) (found []string, err error) {
	for _, node := range s.env.Slurm.Nodes() {
		out, err := s.env.Slurm.Output(ctx, node, "find", "/dev/shm", "/tmp", "/run", "-mindepth", "2", "-maxdepth", "3", "-path", "*gangline*", "-name", "*-[0-9]*")
		if err != nil && out == "" {
			continue // no such directory on it
		}
		for line := range strings.Lines(out) {
			found = append(found, node+" "+strings.TrimSpace(line))
		}
	}
	return found, nil
}

// mountsOfNodes are the mount points on each HPC node that runs.
func (s *storm) mountsOfNodes() map[string]map[string]bool {
	status, err := s.env.Slurm.Status(s.Context())
	require.NoError(s, err)
	all := map[string]map[string]bool{}
	for _, n := range status.Nodes {
		all[n.Name] = s.mountsOf(fmt.Sprint(n.PID))
	}
	return all
}

// mountsOf are the mount points that a process sees.
func (s *storm) mountsOf(pid string) map[string]bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
	require.NoError(s, err)
	points := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		points[strings.Fields(line)[4]] = true
	}
	return points
}

// newMounts are those that were not there before the storm. A node that was switched on
// again has all that the machine has.
func (s *storm) newMounts() (found []string) {
	machine := s.mountsOf("self")
	for node, mounts := range s.mountsOfNodes() {
		for at := range mounts {
			if !s.mounts[node][at] && !machine[at] {
				found = append(found, node+" "+at)
			}
		}
	}
	return found
}

// blockSpool is a small filesystem on a file, which can be filled and frozen.
type blockSpool struct{ dir *os.File }

// The ioctls that freeze and thaw a filesystem (linux/fs.h).
const fiFreeze, fiThaw = 0xC0045877, 0xC0045878

func (b *blockSpool) freeze() error { return b.ioctl(fiFreeze) }
func (b *blockSpool) thaw() error   { return b.ioctl(fiThaw) }

func (b *blockSpool) ioctl(request uint) error {
	return unix.IoctlSetInt(int(b.dir.Fd()), request, 0)
}

// mountBlocks mounts a filesystem of 48 MiB at a directory, which the HPC nodes see if they
// are started later.
func mountBlocks(t *testing.T, dir string) *blockSpool {
	image := dir + ".img"
	uid, gid, _, err := slurm.EnsureUser(t.Context(), "hpcuser")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 48<<20))
	require.NoError(t, os.Mkdir(dir, 0o700))
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", fmt.Sprintf("root_owner=%d:%d", uid, gid), image},
		{"mount", "-o", "loop", image, dir},
	} {
		out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s: %s", command, out)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "lost+found")))
	require.NoError(t, os.Chmod(dir, 0o700))
	f, err := os.Open(dir)
	require.NoError(t, err)
	b := &blockSpool{dir: f}
	t.Cleanup(func() {
		_ = b.thaw() // it may be frozen, if the test ended early
		_ = f.Close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting the spool: %v", err)
		}
	})
	return b
}
