package agent

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"

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
