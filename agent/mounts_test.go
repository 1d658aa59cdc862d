package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

func TestMountsWithoutAPrivateRoot(t *testing.T) {
	keys := []spool.File{{Path: "id_rsa", Mode: 0o600}, {Path: "id_rsa.pub", Mode: 0o644}, {Path: "authorized_keys", Mode: 0o644}}
	cases := map[string]struct {
		volume spool.Volume
		path   string
		moved  bool   // to where the pod's variables may say it is
		fails  string // what the error says
	}{
		"a host path at its own path":   {volume: spool.Volume{HostPath: "/data"}, path: "/data"},
		"one that is still to be found": {volume: spool.Volume{HostPath: "/data", Host: &spool.Host{}}, path: "/data"},
		"a host path elsewhere":         {volume: spool.Volume{HostPath: "/data"}, path: "/mnt", fails: `volume "v" cannot be mounted at /mnt`},
		"a ConfigMap":                   {volume: spool.Volume{Files: []spool.File{{Path: "a"}}}, path: "/etc/settings", fails: "/etc/settings"},
		"the hostfiles":                 {volume: spool.Volume{Files: []spool.File{{Path: "hostfile"}}}, path: "/etc/mpi", moved: true},
		"Kubernetes' token": {
			volume: spool.Volume{Files: []spool.File{{Path: "token"}}}, path: "/var/run/secrets/kubernetes.io/serviceaccount", moved: true,
		},
		"Kubeflow's SSH keys, wherever": {volume: spool.Volume{Files: keys}, path: "/home/mpiuser/.ssh", moved: true},
		"keys with something else":      {volume: spool.Volume{Files: append(keys, spool.File{Path: "password"})}, path: "/root/.ssh", fails: "/root/.ssh"},
		"more shared memory":            {volume: spool.Volume{EmptyDir: &spool.EmptyDir{Memory: true}}, path: "/dev/shm"},
		"scratch space":                 {volume: spool.Volume{EmptyDir: &spool.EmptyDir{}}, path: "/scratch", fails: "/scratch"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			c.volume.Name = "v"
			dirs := podDirs{memory: t.TempDir(), disk: t.TempDir()}
			f, err := layOut(dirs, []spool.Volume{c.volume}, time.Now())
			require.NoError(t, err)
			moved, err := f.relocations("run", spool.ContainerOrders{Mounts: []spool.Mount{{Volume: "v", Path: c.path}}})
			if c.fails != "" {
				assert.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			_, isMoved := moved[c.path]
			assert.Equal(t, c.moved, isMoved)
			assert.Equal(t, dirs.run(), moved[runDir])
		})
	}
}

func TestAMissingPartIsMadeWherePodsMayWrite(t *testing.T) {
	for sentence, tc := range map[string]struct {
		host  *spool.Host
		found *volume.Host
		made  bool
	}{
		"where they may":              {&spool.Host{}, &volume.Host{}, true},
		"where they may only read":    {&spool.Host{}, &volume.Host{ReadOnly: true}, false},
		"a path that is not found":    {&spool.Host{}, nil, false},
		"a volume that needs no look": {nil, nil, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			const mode = fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o775
			require.NoError(t, os.Chmod(dir, mode))
			f, err := layOut(podDirs{memory: t.TempDir(), disk: t.TempDir()}, []spool.Volume{{Name: "v", HostPath: dir, Host: tc.host}}, time.Now())
			require.NoError(t, err)
			if tc.found != nil {
				f.hosts["v"] = volume.Host{Path: dir, ReadOnly: tc.found.ReadOnly}
			}
			bound, err := f.locate(spool.Mount{Volume: "v", Path: "/data", SubPath: "a/b"}, "run")
			if tc.made {
				require.NoError(t, err)
				assert.True(t, bound.NoLinks)
				info, err := os.Stat(filepath.Join(dir, "a", "b"))
				require.NoError(t, err)
				assert.Equal(t, mode, info.Mode(), "as the volume's own: a group's shared directory stays one")
				return
			}
			require.Error(t, err)
			assert.NoDirExists(t, filepath.Join(dir, "a"))
		})
	}
}

func TestAPartOfAVolumeInWhosePlaceALinkHasComeIsRefused(t *testing.T) {
	dir, private := filepath.Join(t.TempDir(), "volume"), t.TempDir()
	require.NoError(t, os.Symlink(private, dir))
	f, err := layOut(podDirs{memory: t.TempDir(), disk: t.TempDir()}, []spool.Volume{{Name: "v", HostPath: dir, Host: &spool.Host{}}}, time.Now())
	require.NoError(t, err)
	f.hosts["v"] = volume.Host{Path: dir}
	_, err = f.locate(spool.Mount{Volume: "v", Path: "/data", SubPath: "a"}, "run")
	require.ErrorContains(t, err, "a link has come into the path "+dir)
	assert.NoDirExists(t, filepath.Join(private, "a"))
}
