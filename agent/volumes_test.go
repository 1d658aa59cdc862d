package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

func TestAPartOfAVolumeStaysAsItWasWhenItsContainerBegan(t *testing.T) {
	w := single(t)
	o := w.orders("u", `
cat /etc/part; test -e /data/again && exit 0
until grep -q new /etc/settings/text; do sleep 0.05; done
cat /etc/part; touch /data/again; exit 1`)
	o.RestartPolicy = corev1.RestartPolicyOnFailure
	o.Volumes = append(settings("old\n"), spool.Volume{Name: "data", EmptyDir: &spool.EmptyDir{}})
	o.Containers[0].Mounts = []spool.Mount{
		{Volume: "settings", Path: "/etc/settings"}, {Volume: "settings", Path: "/etc/part", SubPath: "text"}, {Volume: "data", Path: "/data"},
	}
	w.run(0, o)
	w.waitLog(0, "u", "old")
	w.update(0, o, spool.PodUpdate{UID: "u", Volumes: settings("new\n")})
	assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
	assert.Equal(t, "old\nold\n", w.log(0, "u", "main", 0, "stdout"))
	assert.Equal(t, "new\n", w.log(0, "u", "main", 1, "stdout"))
}

func TestAPodThatExceedsALimitIsEvicted(t *testing.T) {
	for sentence, tc := range map[string]struct {
		script  string
		change  func(*spool.PodOrders)
		message string
	}{
		"of a volume": {
			"head -c 2000000 /dev/zero > /data/x; sleep 60",
			func(o *spool.PodOrders) { o.Volumes[0].EmptyDir.SizeLimit = "1Mi" },
			`Usage of EmptyDir volume "data" exceeds the limit "1Mi".`,
		},
		"of a volume in memory": {
			"head -c 2000000 /dev/zero > /data/x; sleep 60",
			func(o *spool.PodOrders) { o.Volumes[0].EmptyDir = &spool.EmptyDir{Memory: true, SizeLimit: "1Mi"} },
			`Usage of EmptyDir volume "data" exceeds the limit "1Mi".`,
		},
		"of the pod": {
			"head -c 2000000 /dev/zero > /data/x; sleep 60",
			func(o *spool.PodOrders) { o.StorageLimit = "1M" },
			"Pod ephemeral local storage usage exceeds the total limit of containers 1M.",
		},
		"of a container's log": {
			"head -c 200000 /dev/zero | tr '\\0' x; sleep 60",
			func(o *spool.PodOrders) { o.Containers[0].StorageLimit = "100k" },
			`Container main exceeded its local ephemeral storage limit "100k".`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := single(t)
			o := w.orders("u", tc.script)
			o.RestartPolicy = corev1.RestartPolicyAlways
			o.Volumes = []spool.Volume{{Name: "data", EmptyDir: &spool.EmptyDir{}}}
			o.Containers[0].Mounts = []spool.Mount{{Volume: "data", Path: "/data"}}
			tc.change(&o)
			w.run(0, o)
			end := w.done(0, "u")
			assert.Equal(t, "Evicted", end.Reason)
			assert.Equal(t, tc.message, end.Message)
			assert.EqualValues(t, 0, end.Containers[0].RestartCount)
		})
	}
}

func TestAPodWaitsForThePathsOfItsNode(t *testing.T) {
	w := single(t)
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o777))
	o := w.orders("u", "echo here; touch /host/x /made/y; stat -c %F /host /made")
	allowed := []spool.AllowedDir{{Path: base}}
	o.Volumes = []spool.Volume{
		{Name: "host", HostPath: filepath.Join(base, "later"), Host: &spool.Host{Type: corev1.HostPathDirectory, Allowed: allowed}},
		{Name: "made", HostPath: filepath.Join(base, "made"), Host: &spool.Host{Type: corev1.HostPathDirectoryOrCreate, Allowed: allowed}},
	}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "host", Path: "/host"}, {Volume: "made", Path: "/made"}}
	w.run(0, o)
	waits := w.podWhere(0, "told to wait", func(p spool.PodStatus) bool { return len(p.Events) > 0 })
	assert.Equal(t, "ContainerCreating", waits.Containers[0].State.Waiting.Reason)
	assert.Equal(t, "FailedMount", waits.Events[0].Reason)
	assert.Empty(t, waits.Events[0].Container)
	assert.Contains(t, waits.Events[0].Message, `MountVolume.SetUp failed for volume "host" : hostPath type check failed`)
	require.NoError(t, os.Mkdir(filepath.Join(base, "later"), 0o777))
	end := w.done(0, "u")
	assert.Equal(t, 0, exitCode(t, end))
	assert.Len(t, end.Events, len(waits.Events), "told once")
	assert.FileExists(t, filepath.Join(base, "later", "x"))
	assert.FileExists(t, filepath.Join(base, "made", "y"))
}

func TestAPodThatWaitsForAPathCanBeStopped(t *testing.T) {
	w := single(t)
	o := w.orders("u", "true")
	base := t.TempDir()
	o.Volumes = []spool.Volume{{Name: "host", HostPath: base + "/none", Host: &spool.Host{Allowed: []spool.AllowedDir{{Path: base}}}}}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "host", Path: "/host"}}
	w.run(0, o)
	w.podWhere(0, "told to wait", func(p spool.PodStatus) bool { return len(p.Events) > 0 })
	began := time.Now()
	w.stop(0, "u", 5)
	w.done(0, "u")
	t.Log("stopped after", time.Since(began))
}

func TestEmptyDirsHaveTheirModes(t *testing.T) {
	w := single(t)
	o := w.orders("u", "stat -c %a /a /b")
	o.Volumes = []spool.Volume{
		{Name: "a", EmptyDir: &spool.EmptyDir{Mode: ptr.To[int32](0o1755)}}, {Name: "b", EmptyDir: &spool.EmptyDir{Memory: true, Mode: ptr.To[int32](0o700)}},
	}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "a", Path: "/a"}, {Volume: "b", Path: "/b"}}
	w.run(0, o)
	w.done(0, "u")
	assert.Equal(t, "1755\n700\n", w.log(0, "u", "main", 0, "stdout"))
}

// What is allowed is looked at once. A container that may write above a volume's directory
// must not have another one mounted in its place by a link.
func TestALinkThatHasComeIntoAVolumesPlaceIsNotFollowed(t *testing.T) {
	w := single(t)
	base, private := t.TempDir(), t.TempDir()
	require.NoError(t, os.Chmod(private, 0o777))
	require.NoError(t, os.MkdirAll(filepath.Join(base, "u", "b"), 0o777))
	o := w.orders("u", `test -e /a/moved && touch /b/mine && exit 0
		mv /a/b /a/moved; ln -s `+private+` /a/b; exit 1`)
	o.RestartPolicy = corev1.RestartPolicyOnFailure
	host := &spool.Host{Allowed: []spool.AllowedDir{{Path: base}}}
	o.Volumes = []spool.Volume{
		{Name: "above", HostPath: filepath.Join(base, "u"), Host: host},
		{Name: "below", HostPath: filepath.Join(base, "u", "b"), Host: host},
	}
	o.Containers[0].Mounts = []spool.Mount{{Volume: "above", Path: "/a"}, {Volume: "below", Path: "/b"}}
	w.run(0, o)
	p := w.podWhere(0, "unable to start again", func(p spool.PodStatus) bool {
		end := p.Containers[0].LastTerminationState.Terminated
		if end == nil {
			end = p.Containers[0].State.Terminated
		}
		return end != nil && end.Reason == "StartError"
	})
	end := p.Containers[0].LastTerminationState.Terminated
	if end == nil {
		end = p.Containers[0].State.Terminated
	}
	assert.Contains(t, end.Message, "mounting /b: a link has come into the path "+filepath.Join(base, "u", "b"))
	w.stop(0, "u", 1)
	w.done(0, "u")
	left, err := os.ReadDir(private)
	require.NoError(t, err)
	assert.Empty(t, left)
}
