package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The golden files are what a person reads to see what a dev Slurm is like. To renew them:
// UPDATE_GOLDEN=1 go test ./test/slurm/internal/plan
func TestConfigurationFiles(t *testing.T) {
	standard := Plan{
		Name: "dev", Dir: "/var/lib/dev", NodePrefix: "hpc", Nodes: 4, CPUs: 8, MemoryMB: 16384, GPUs: 8, Subnet: 3, MinJobAge: 300,
	}
	small := Plan{
		Name: "b", Dir: "/var/lib/b", NodePrefix: "b-hpc", Nodes: 1, CPUs: 2, MemoryMB: 1024, Cgroup: true, MinJobAge: 2,
	}
	full := small
	full.REST, full.Accounting = true, true
	tests := map[string]string{
		"slurm.conf":       standard.SlurmConfText(),
		"gres.conf":        standard.GresConfText(),
		"hosts":            standard.HostsText(),
		"small-slurm.conf": small.SlurmConfText(),
		"small-gres.conf":  small.GresConfText(),
		"full-slurm.conf":  full.SlurmConfText(),
		"slurmdbd.conf":    full.SlurmdbdConfText(),
	}
	for name, got := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got)
		})
	}
}
