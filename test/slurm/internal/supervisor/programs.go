package supervisor

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// SystemPath is the PATH of daemons and of commands in machines.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// FindProgram looks in PATH, then where daemons are; PATH of an ordinary login often
// lacks the latter.
func FindProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range filepath.SplitList(SystemPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

// CheckPrograms says which programs that a cluster needs are missing and which of
// Debian's packages hold them.
func CheckPrograms(p plan.Plan) error {
	packages := map[string]string{
		"slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "sbatch": "slurm-wlm", "srun": "slurm-wlm",
		"squeue": "slurm-wlm", "sinfo": "slurm-wlm", "scontrol": "slurm-wlm", "scancel": "slurm-wlm",
		"munged": "munge", "ip": "iproute2", "useradd": "passwd",
	}
	if p.REST {
		packages["slurmrestd"] = "slurmrestd slurm-wlm-jwt-plugin"
	}
	if p.Accounting {
		packages["slurmdbd"], packages["mariadbd"] = "slurmdbd", "mariadb-server"
	}
	var programs, install []string
	for program, pkg := range packages {
		if _, err := FindProgram(program); err != nil {
			programs = append(programs, program)
			install = append(install, pkg)
		}
	}
	if len(programs) == 0 {
		return nil
	}
	slices.Sort(programs)
	slices.Sort(install)
	return fmt.Errorf("%w: %s not found; on Debian: apt-get install %s", ErrNotInstalled,
		strings.Join(programs, ", "), strings.Join(slices.Compact(install), " "))
}

// ErrNotInstalled says that Slurm, or something it needs, is not on this machine.
var ErrNotInstalled = errors.New("the dev Slurm needs a real Slurm")
