package oom

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCounter(t *testing.T) {
	for sentence, c := range map[string]struct {
		membership string
		files      map[string]string
		kills      int64
		none       bool
	}{
		"the second version": {
			membership: "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
			files: map[string]string{
				"system.slice/slurmstepd.scope/job_7/step_0/user/task_0/memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n",
			},
			kills: 3,
		},
		"the first version": {
			membership: "5:cpu,cpuacct:/slurm/uid_1/job_7\n4:memory:/slurm/uid_1/job_7/step_0\n0::/\n",
			files:      map[string]string{"memory/slurm/uid_1/job_7/step_0/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"},
			kills:      2,
		},
		"controllers that share a tree": {
			membership: "4:pids,memory:/a\n",
			files:      map[string]string{"memory/a/memory.oom_control": "oom_kill 1\n"},
			kills:      1,
		},
		"nothing killed yet": {
			membership: "0::/a\n",
			files:      map[string]string{"a/memory.events": "oom_kill 0\n"},
		},
		"no memory controller": {membership: "0::/a\n3:cpu:/a\n", none: true},
		"no control groups":    {membership: "", none: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := t.TempDir()
			membership := filepath.Join(dir, "membership")
			require.NoError(t, os.WriteFile(membership, []byte(c.membership), 0o600))
			for path, text := range c.files {
				path = filepath.Join(dir, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			counter, err := find(membership, dir)
			assert.Equal(t, c.none, err != nil, err)
			assert.Equal(t, c.kills, counter.Kills())
		})
	}
	_, err := find(filepath.Join(t.TempDir(), "none"), "/")
	assert.ErrorContains(t, err, "finding the control group")
}
