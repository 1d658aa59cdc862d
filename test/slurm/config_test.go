package slurm

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaultsAreFilledIn(t *testing.T) {
	p, err := Config{}.resolve()
	require.NoError(t, err)
	assert.Equal(t, []string{"hpc1", "hpc2", "hpc3", "hpc4"}, p.NodeNames())
	assert.Equal(t, Dir("dev"), p.Dir)
	assert.Equal(t, 8, p.GPUs)

	p, err = Config{Name: "b", Nodes: 1, GPUs: NoGPUs}.resolve()
	require.NoError(t, err)
	assert.Equal(t, []string{"b-hpc1"}, p.NodeNames(), "other clusters have a prefix of their own")
	assert.Equal(t, Dir("b"), p.Dir)
	assert.Zero(t, p.GPUs)
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"a name with a slash":          {Config{Name: "a/b"}, "name"},
		"a name that starts with dash": {Config{Name: "-a"}, "name"},
		"too many nodes":               {Config{Nodes: 300}, "nodes"},
		"a directory under /tmp":       {Config{Dir: "/tmp/x"}, "private"},
		"a directory under /dev/shm":   {Config{Dir: "/dev/shm/x"}, "private"},
		"a directory with a space":     {Config{Dir: "/var/lib/a b"}, "character"},
		"a user with a colon":          {Config{User: "a:b"}, "user"},
		"negative CPUs":                {Config{CPUs: -1}, "CPUs"},
		"a memory of one second":       {Config{MinJobAge: 1}, "remembered"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tt.cfg.resolve()
			require.ErrorContains(t, err, tt.want)
		})
	}
}
