package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent"
)

func TestDirectoriesForVolumes(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for sentence, tc := range map[string]struct {
		dirs   []string
		status Status
		says   string
	}{
		"none":                        {nil, Info, "names none"},
		"all are there":               {[]string{base, "/"}, OK, base + ", /"},
		"one is not":                  {[]string{base, base + "/none"}, Warn, "there is no directory " + base + "/none"},
		"a file in place of one":      {[]string{file}, Warn, "there is no directory " + file},
		"one is below another's file": {[]string{file + "/x"}, Warn, "there is no directory"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := directories(tc.dirs)
			assert.Equal(t, tc.status, got.Status)
			assert.Contains(t, got.Message, tc.says)
		})
	}
}

func TestScratchByRule(t *testing.T) {
	base := t.TempDir()
	c := agent.Config{JobID: "7", User: "alice", Node: "hpc1", Scratch: filepath.Join(base, "usual")}
	got := scratch(c, base+"/{user}/{job}")
	assert.Equal(t, OK, got.Status, got.Message)
	assert.Contains(t, got.Message, base+"/alice/7/gangline-")
	assert.NoDirExists(t, filepath.Join(base, "alice", "7"), "what was made to try goes again")

	got = scratch(c, base+"/none/{job}")
	assert.Equal(t, Fail, got.Status)
	assert.Contains(t, got.Message, base+"/none (volumes.scratch is "+base+"/none/{job}), is not there on node hpc1")

	assert.Contains(t, scratch(c, "").Message, filepath.Join(base, "usual"))
}
