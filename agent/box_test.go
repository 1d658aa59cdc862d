package agent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

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
	for _, name := range []string{"sh", "cat", "sleep", "hostname", "pwd"} {
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
