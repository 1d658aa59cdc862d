package cli

import (
	"fmt"
	"strings"

	"github.com/gangline/gangline/provider/slurm"
)

const scriptName = "launch.sh"

// scriptText is the whole of every batch script. The agent's path and the gang's
// directory are its arguments: nothing is ever written into it.
const scriptText = `#!/bin/sh
exec "$1" launch "$2"
`

const scriptMode = 0o700

// parseJobID reads the output of sbatch --parsable, "123" or "123;cluster".
// The last line counts: a site's wrapper may print its own before.
func parseJobID(stdout string) (string, error) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	id, _, _ := strings.Cut(strings.TrimSpace(lines[len(lines)-1]), ";")
	if !isNumber(id) {
		return "", fmt.Errorf("sbatch succeeded but printed no job id: %q", stdout)
	}
	return id, nil
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// refusal tells whether a failed sbatch is Slurm's verdict on the job, and if so
// in what words. A submission is refused by the controller ("Batch job
// submission failed") or already by sbatch, as when an option's value makes no
// sense (exit status 255).
func refusal(a answer) (message string, refused bool) {
	if a.exit <= 0 {
		return "", false
	}
	const byUsage = 255
	if slurm.Uncertain(a.stderr) || a.exit != byUsage && !strings.Contains(a.stderr, "sbatch: error: ") {
		return "", false
	}
	return a.ownWords(), true
}
