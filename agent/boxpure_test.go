package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

func TestWhatAContainerRunsInItsImage(t *testing.T) {
	config := v1.Config{Entrypoint: []string{"/entry", "-v"}, Cmd: []string{"serve"}, WorkingDir: "/work"}
	for sentence, tc := range map[string]struct {
		in   inImage
		argv []string
		dir  string
	}{
		"nothing said: the image's own":        {inImage{config: config}, []string{"/entry", "-v", "serve"}, "/work"},
		"args take the place of the cmd":       {inImage{orders: spool.InImage{Args: []string{"train"}}, config: config}, []string{"/entry", "-v", "train"}, "/work"},
		"a command takes the place of both":    {inImage{orders: spool.InImage{Command: []string{"sh"}}, config: config, dir: "src"}, []string{"sh"}, "/work/src"},
		"a command and args":                   {inImage{orders: spool.InImage{Command: []string{"sh"}, Args: []string{"-c", "x"}}, config: config, dir: "/a/../b"}, []string{"sh", "-c", "x"}, "/b"},
		"an image that says nothing, relative": {inImage{dir: "src"}, nil, "/src"},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, tc.argv, tc.in.argv())
			assert.Equal(t, tc.dir, tc.in.workingDir())
		})
	}
}

func TestTheImagesTableOfUsers(t *testing.T) {
	const table = "root:x:0:0:root:/root:/bin/bash\nubuntu:x:1001:1001::/home/ubuntu:/bin/sh\n"
	me := who{uid: 1001, gid: 1002, home: "/home/ada"}
	assert.Equal(t, "ada:x:1001:1002::/home/ada:/bin/sh\n"+table, withUser(table, "ada", me, false), "the HPC user comes before the image's of that number")
	assert.Equal(t, table, withUser(table, "ada", who{uid: 0}, true), "whom the image knows")
	assert.Equal(t, "user7:x:7:7::/home/ada:/bin/sh\n"+table, withUser(table, "ada", who{uid: 7, gid: 7, home: "/home/ada"}, true))
	assert.Equal(t, "/root", homeIn(table, 0))
	assert.Empty(t, homeIn(table, 5))
	const groups = "root:x:0:\n"
	assert.Equal(t, groups, withGroup(groups, "ada", 0))
	assert.Equal(t, "ada:x:1002:\n"+groups, withGroup(groups, "ada", 1002))
}

func TestRootOfTheImageMayLaunch(t *testing.T) {
	env := who{}.variables([]string{"OMPI_ALLOW_RUN_AS_ROOT=0"})
	assert.Contains(t, env, "OMPI_ALLOW_RUN_AS_ROOT=0", "what the pod says stays")
	assert.Contains(t, env, "PRTE_ALLOW_RUN_AS_ROOT=1")
	assert.Empty(t, who{uid: 5}.variables(nil))
}

func TestLibrariesOfGPUsComeLast(t *testing.T) {
	g := gpuLibraries{mounts: []sandbox.Mount{{}}}
	assert.Equal(t, []string{"PATH=/bin:/run/gangline/gpu", "LD_LIBRARY_PATH=/run/gangline/gpu"}, g.variables([]string{"PATH=/bin"}))
	assert.Equal(t, []string{"PATH=/bin"}, gpuLibraries{}.variables([]string{"PATH=/bin"}))
}

func TestMountsOfARuntimeThatMakesThem(t *testing.T) {
	assert.Equal(t, []container.Mount{
		{Source: "/layers/run", Target: "/run"},
		{Source: "/data", Target: "/data"},
		{Source: "/pod/tmp", Target: "/tmp"},
		{Source: "/pod/run", Target: "/run/gangline", ReadOnly: true},
		{Source: "/data/sub", Target: "/data/sub"},
	}, asOptions([]sandbox.Mount{
		{Source: "/layers/tmp", Target: "/tmp"},
		{Source: "/layers/run", Target: "/run"},
		{Source: "/pod/run", Target: "/run/gangline", ReadOnly: true},
		{Source: "/data/sub", Target: "/data/sub"},
		{Source: "/data", Target: "/data"},
		{Source: "/pod/tmp", Target: "/tmp/"},
		{Source: "/work", Target: "/data", IfMissing: true},
	}), "each path once, the last that is for it, and what holds another first")
}

func TestScratchDirectoriesOfARuntimeThatMountsImages(t *testing.T) {
	layers := filepath.Join(t.TempDir(), "u-main-0")
	mounts, err := scratchMounts(layers, false)
	require.NoError(t, err)
	require.Len(t, mounts, len(scratchDirs))
	for i, dir := range scratchDirs {
		assert.Equal(t, sandbox.Mount{Source: layers + dir, Target: dir}, mounts[i])
		info, err := os.Stat(layers + dir)
		require.NoError(t, err)
		assert.Equal(t, fs.ModeDir|fs.ModeSticky|fs.ModePerm, info.Mode())
	}
	mounts, err = scratchMounts(layers, true)
	require.NoError(t, err)
	assert.Empty(t, mounts, "nothing is to be written to")
}

func TestWhatAnImageHas(t *testing.T) {
	tree, site := t.TempDir(), t.TempDir()
	for _, dir := range []string{tree + "/usr/local", tree + "/opt/mpi/bin", tree + "/etc/static", site + "/bin"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for file, text := range map[string]string{tree + "/opt/mpi/bin/mpirun": "", tree + "/etc/static/passwd": "ada:x:7:7::/home/ada:/bin/sh\n", site + "/bin/srun": ""} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
	}
	for link, to := range map[string]string{
		"usr/local/mpi": "/opt/mpi", "usr/local/host": "/etc", "usr/local/slurm": "/site", "usr/local/mpi-1": "../../opt/mpi",
		"usr/local/out": "../../../../../../../../../bin", "etc/passwd": "/etc/static/passwd", "etc/group": "/etc/hostname", "bin": "usr/bin",
		"opt/mpi/bin/mpiexec": "/elsewhere/mpiexec",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(tree, link)))
	}
	p := &pod{box: &box{orders: spool.Runtime{Binds: []spool.Bind{{Source: site, Target: "/site"}}}}}
	for path, has := range map[string]bool{
		"/usr/local/mpi/bin/mpirun":   true,
		"/usr/local/mpi-1/bin/mpirun": true,
		"/usr/local/mpi/bin/mpiexec":  true, // whatever it leads to
		"/usr/local/mpi/bin/srun":     false,
		"/site/bin/srun":              true,
		"/usr/local/slurm/bin/srun":   true,
		"/usr/local/host/hostname":    false, // the host's
		"/usr/local/out/sh":           false, // likewise
	} {
		assert.Equal(t, has, p.imageHas(&image.Image{Path: tree}, path), path)
	}
	assert.Equal(t, "/home/ada", homeIn(readIn(tree, passwdFile), 7), "an absolute link leads through the image")
	assert.Empty(t, readIn(tree, groupFile), "and never to the host")
	assert.Empty(t, readIn(tree, "/etc"))
	require.NoError(t, unix.Mkfifo(tree+"/etc/pipe", 0o644))
	assert.Empty(t, readIn(tree, "/etc/pipe"), "nobody waits for a writer")
	require.NoError(t, os.WriteFile(tree+"/etc/large", []byte(strings.Repeat("x", mostTable+1)), 0o644))
	assert.Len(t, readIn(tree, "/etc/large"), mostTable)
}
