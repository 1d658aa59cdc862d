package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
)

func TestASlurmConfThatIsNotThereIsTold(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "slurm.conf")
	assert.ErrorContains(t, checkSlurmConf(t.Context(), site.Local{}, conf), "slurm.conf names "+conf+", which is not there on")
	assert.ErrorContains(t, checkSlurmConf(t.Context(), site.Local{}, filepath.Join(dir, "none", "slurm.conf")), "which is not there")
	assert.ErrorContains(t, checkSlurmConf(t.Context(), site.Local{}, dir), "which is not there", "a directory is none")
	require.NoError(t, os.WriteFile(conf, nil, 0o600))
	assert.NoError(t, checkSlurmConf(t.Context(), site.Local{}, conf))
	assert.NoError(t, checkSlurmConf(t.Context(), site.Local{}, ""), "the tools know where theirs is")
}
