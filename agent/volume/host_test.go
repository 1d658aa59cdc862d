package volume_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

func TestFindHost(t *testing.T) {
	// The site's own path to the allowed directory leads through a link.
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	at := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	for _, dir := range []string{at("real", "sets", "deep"), at("real", "mine"), at("outside")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(at("real", "file"), []byte("x"), 0o644))
	socket, err := net.Listen("unix", at("real", "socket"))
	require.NoError(t, err)
	defer socket.Close() //nolint:errcheck // a test's
	for link, target := range map[string]string{
		at("scratch"):               at("real"),
		at("real", "out"):           at("outside"),
		at("real", "nowhere"):       at("none"),
		at("real", "data"):          "mine",
		at("real", "mine", "a-set"): at("real", "sets", "deep"),
	} {
		require.NoError(t, os.Symlink(target, link))
	}
	allowed := []spool.AllowedDir{{Path: at("scratch")}, {Path: at("real", "sets"), ReadOnly: true}, {Path: at("absent")}}

	for name, tc := range map[string]struct {
		path     string
		kind     corev1.HostPathType
		want     string // where it is
		readOnly bool
		wrong    string
	}{
		"a directory":                              {path: at("scratch", "mine"), kind: corev1.HostPathDirectory, want: at("real", "mine")},
		"the allowed directory itself":             {path: at("scratch"), want: at("real")},
		"a link within":                            {path: at("scratch", "data"), kind: corev1.HostPathDirectory, want: at("real", "mine")},
		"where pods may only read":                 {path: at("scratch", "sets"), want: at("real", "sets"), readOnly: true},
		"a link to where pods may only read":       {path: at("scratch", "mine", "a-set"), want: at("real", "sets", "deep"), readOnly: true},
		"a file":                                   {path: at("scratch", "file"), kind: corev1.HostPathFile, want: at("real", "file")},
		"a socket":                                 {path: at("scratch", "socket"), kind: corev1.HostPathSocket, want: at("real", "socket")},
		"a directory that is made":                 {path: at("scratch", "new", "er"), kind: corev1.HostPathDirectoryOrCreate, want: at("real", "new", "er")},
		"a directory that need not be made":        {path: at("scratch", "mine"), kind: corev1.HostPathDirectoryOrCreate, want: at("real", "mine")},
		"a file that is made":                      {path: at("scratch", "new-file"), kind: corev1.HostPathFileOrCreate, want: at("real", "new-file")},
		"a link that leads out":                    {path: at("scratch", "out"), wrong: "not in a directory that the site allows"},
		"a path through a link that leads out":     {path: at("scratch", "out", "x"), kind: corev1.HostPathDirectoryOrCreate, wrong: "not in a directory that the site allows"},
		"a link to nothing":                        {path: at("scratch", "nowhere"), kind: corev1.HostPathDirectoryOrCreate, wrong: "is a link to something that does not exist"},
		"a path that is not allowed":               {path: at("outside"), wrong: "not in a directory that the site allows"},
		"a directory of the site's that is absent": {path: at("absent", "x"), kind: corev1.HostPathDirectoryOrCreate, wrong: "the directory " + at("absent") + " that the site names for volumes is not there"},
		"nothing":                                  {path: at("scratch", "none"), wrong: "does not exist"},
		"no directory, in kubelet's words":         {path: at("scratch", "none"), kind: corev1.HostPathDirectory, wrong: "hostPath type check failed, " + at("scratch", "none") + " is not a directory, unable to determine its type: path \"" + at("scratch", "none") + "\" does not exist"},
		"a file where a directory should be":       {path: at("scratch", "file"), kind: corev1.HostPathDirectory, wrong: "hostPath type check failed: " + at("scratch", "file") + " is not a directory, it's a File"},
		"a directory where a file would be made":   {path: at("scratch", "mine"), kind: corev1.HostPathFileOrCreate, wrong: "is not a file, it's a Directory"},
		"no device":                                {path: at("scratch", "file"), kind: corev1.HostPathBlockDev, wrong: "is not a block device, it's a File"},
		"a new directory where pods may only read": {path: at("scratch", "sets", "new"), kind: corev1.HostPathDirectoryOrCreate, wrong: "pods may only read there"},
		"a type that Kubernetes does not have":     {path: at("scratch"), kind: "Pipe", wrong: "Pipe is an invalid volume type"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := volume.FindHost(tc.path, spool.Host{Type: tc.kind, Allowed: allowed})
			if tc.wrong != "" {
				assert.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, volume.Host{Path: tc.want, ReadOnly: tc.readOnly}, got)
			_, err = os.Lstat(tc.want)
			assert.NoError(t, err)
		})
	}
	entries, err := os.ReadDir(at("outside"))
	require.NoError(t, err)
	assert.Empty(t, entries, "nothing was made outside")
	got, err := volume.FindHost(at("scratch"), spool.Host{Allowed: allowed, ReadOnly: true})
	require.NoError(t, err)
	assert.True(t, got.ReadOnly)
}
