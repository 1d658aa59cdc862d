package plan

import (
	"path/filepath"
	"testing"

	"github.com/gangline/gangline/test/golden"
)

// The golden files are what a person reads to see what a dev Slurm is like.
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
			golden.Equal(t, filepath.Join("testdata", name), got)
		})
	}
}
