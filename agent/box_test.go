package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/spool"
)

// imageTree is an unpacked image of one program that has many names.
func imageTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	for _, dir := range []string{"bin", "etc", "tmp"} {
		require.NoError(t, os.Mkdir(filepath.Join(tree, dir), 0o755))
	}
	busybox, err := os.ReadFile("/bin/busybox")
	require.NoError(t, err, "install busybox-static")
	require.NoError(t, os.WriteFile(filepath.Join(tree, "bin", "busybox"), busybox, 0o755))
	for _, name := range []string{"sh", "cat", "sleep", "hostname", "pwd", "env", "setsid"} {
		require.NoError(t, os.Symlink("busybox", filepath.Join(tree, "bin", name)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(tree, "etc", "image"), []byte("of the image\n"), 0o644))
	return tree
}

// imageOrders are a pod of that image, by a runtime.
func (w *world) imageOrders(uid, runtime, tree, script string) spool.PodOrders {
	o := w.orders(uid, script)
	o.Runtime = &spool.Runtime{
		Name: runtime, Images: spool.ImageStore{Dir: filepath.Join(w.t.TempDir(), "store"), Offline: map[string]string{"tool:*": tree}},
		// The tests' own program, which stands for the agent, is linked to libraries.
		Binds: []spool.Bind{{Source: "/lib64", ReadOnly: true}, {Source: "/lib", ReadOnly: true}, {Source: "/usr/lib", ReadOnly: true}},
	}
	if runtime == "podman" {
		o.Runtime.Options = []string{"--runtime", "runc"} // crun refuses machines with both kinds of cgroups
	}
	c := &o.Containers[0]
	c.Image, c.Argv = "tool:1", nil
	c.InImage = &spool.InImage{Command: []string{"sh", "-c", script}}
	return o
}

func TestContainersInImages(t *testing.T) {
	tree := imageTree(t)
	for _, runtime := range []string{"bubblewrap", "charliecloud", "podman"} {
		t.Run(runtime, func(t *testing.T) {
			w := newWorld(t, [][]int{{0}})
			w.publishNames()
			o := w.imageOrders("u", runtime, tree, "cat /etc/image; hostname; pwd; echo x >/etc/new && cat /etc/new; exit 4")
			o.Containers[0].WorkingDir = "/made/here"
			w.run(0, o)
			p := w.done(0, "u")
			assert.Equal(t, 4, exitCode(t, p))
			assert.Equal(t, "of the image\n"+o.Hostname+"\n/made/here\nx\n", w.log(0, "u", o.Containers[0].Name, 0, "stdout"))
			assert.Equal(t, tree, p.Containers[0].ImageID)
			assert.NoFileExists(t, filepath.Join(tree, "etc", "new"))
		})
	}
}

// likeApptainer understands what Apptainer is told here and mounts as that does: each process
// has directories of its own, but for what it is told.
const likeApptainer = `#!/bin/sh
set -e
binds=
while [ "$1" != exec ]; do shift; done
shift
while :; do
	case $1 in
	--mount) m=${2#type=bind,source=} && binds="$binds --bind ${m%%,*}" && m=${m#*,destination=} && binds="$binds ${m%%,*}" && shift 2 ;;
	--no-mount | --pwd) shift 2 ;;
	-*) shift ;;
	*) break ;;
	esac
done
exec bwrap --die-with-parent --bind "$1" / --dev-bind /dev /dev --bind /proc /proc --bind /sys /sys \
	--tmpfs /tmp --tmpfs /var --tmpfs /run $binds -- "$2"
`

// withSide keeps a pod of an image up beyond the end of its first container.
func withSide(o spool.PodOrders) spool.PodOrders {
	side := o.Containers[0]
	side.Name, side.InImage = "side", &spool.InImage{Command: []string{"sh", "-c", idle}}
	o.Containers = append(o.Containers, side)
	return o
}

func (w *world) mainEnded(k int, uid string) {
	w.t.Helper()
	w.podWhere(k, "without its main container", func(p spool.PodStatus) bool {
		return p.UID == uid && len(p.Containers) == 2 && p.Containers[0].State.Terminated != nil && p.Containers[1].State.Running != nil
	})
}

func TestProcessesOfAContainerShareWhatTheyWrite(t *testing.T) {
	for _, runtime := range []string{"bubblewrap", "apptainer"} {
		t.Run(runtime, func(t *testing.T) {
			w := newWorld(t, [][]int{{0}})
			w.publishNames()
			o := w.imageOrders("u", runtime, imageTree(t),
				"for dir in /tmp /var/tmp /run; do echo in $dir >$dir/file; done; echo eve:x:7:7::/:/bin/sh >>/etc/passwd; "+idle)
			if runtime == "apptainer" {
				o.Runtime.Program = filepath.Join(t.TempDir(), "apptainer")
				require.NoError(t, os.WriteFile(o.Runtime.Program, []byte(likeApptainer), 0o755))
			}
			w.run(0, o)
			w.waitLog(0, "u", "ready")
			client := w.dial(0)
			for range 2 {
				out, errs, _, err := run(t, client, sshd.ExecRequest{Container: "main", Argv: []string{"sh", "-c", "cat /tmp/file /var/tmp/file /run/file; while read line; do case $line in eve*) echo $line; esac; done </etc/passwd"}})
				require.NoError(t, err)
				assert.Equal(t, "in /tmp\nin /var/tmp\nin /run\neve:x:7:7::/:/bin/sh\n", out, errs)
			}
			w.stop(0, "u", 5)
			w.done(0, "u")
		})
	}
}

func TestASessionInAContainerThatHasEnded(t *testing.T) {
	w := newWorld(t, [][]int{{0}})
	w.publishNames()
	o := withSide(w.imageOrders("u", "bubblewrap", imageTree(t), "exit 0"))
	w.run(0, o)
	w.mainEnded(0, "u")
	_, _, _, err := run(t, w.dial(0), sshd.ExecRequest{Container: "main", Argv: []string{"true"}})
	require.ErrorContains(t, err, `container "main" is not running`)
	require.Eventually(t, func() bool {
		layers, err := filepath.Glob(filepath.Join(w.disk, "*", "*", "*", "layers", "*"))
		return err == nil && len(layers) == 1
	}, 10*time.Second, 10*time.Millisecond, "what it has written is gone, and nothing has come in its place")
	w.stop(0, "u", 5)
	w.done(0, "u")
}

func TestWhatClearsItsEnvironmentEndsWithItsContainer(t *testing.T) {
	tree := imageTree(t)
	for _, runtime := range []string{"bubblewrap", "charliecloud"} {
		t.Run(runtime, func(t *testing.T) {
			w := newWorld(t, [][]int{{0}})
			w.publishNames()
			w.run(0, withSide(w.imageOrders("u", runtime, tree,
				"env -i /bin/setsid /bin/sh -c 'echo $$ >/tmp/pid; exec /bin/sleep 1000 >/dev/null 2>&1' & until test -s /tmp/pid; do sleep 0.01; done; cat /tmp/pid")))
			w.mainEnded(0, "u")
			pid, err := strconv.Atoi(strings.TrimSpace(w.log(0, "u", "main", 0, "stdout")))
			require.NoError(t, err)
			if !assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			w.stop(0, "u", 5)
			w.done(0, "u")
		})
	}
}

func TestAnImageThatIsNotThere(t *testing.T) {
	w := newWorld(t, [][]int{{0}})
	w.publishNames()
	o := w.imageOrders("u", "bubblewrap", "/no/such/tree", "true")
	o.Containers[0].Image, o.Containers[0].InImage.PullPolicy = "other:1", corev1.PullNever
	w.run(0, o)
	p := w.podWhere(0, "waits for its image", func(p spool.PodStatus) bool {
		return len(p.Containers) > 0 && p.Containers[0].State.Waiting != nil && p.Containers[0].State.Waiting.Reason == "ErrImageNeverPull"
	})
	assert.NotEmpty(t, p.Events)
	w.stop(0, "u", 30)
	p = w.done(0, "u")
	assert.Nil(t, p.Containers[0].State.Terminated)
}

func TestARuntimeThatNobodyKnows(t *testing.T) {
	w := newWorld(t, [][]int{{0}})
	w.publishNames()
	w.run(0, w.imageOrders("u", "docker", "/", "true"))
	assert.Contains(t, w.done(0, "u").Message, "update gangline-agent")
}

func TestAPodWhoseImageStoreCannotBeUsedFails(t *testing.T) {
	w := single(t)
	o := w.imageOrders("u", "bubblewrap", t.TempDir(), "true")
	require.NoError(t, os.Mkdir(o.Runtime.Images.Dir, 0o700))
	require.NoError(t, os.Chmod(o.Runtime.Images.Dir, 0o777))
	w.run(0, o)
	p := w.done(0, "u")
	assert.Equal(t, "SetupFailed", p.Reason)
	assert.Contains(t, p.Message, "cannot be an image store: everybody may write there")
}
