package launch

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

const (
	envKillWait = "GANGLINE_KILL_WAIT"
	// killMargin is what an agent needs beyond its pods' grace to report.
	killMargin      = 2 * time.Second
	minKillWait     = time.Second
	scontrolTimeout = 2 * time.Second
)

var killWaitLine = regexp.MustCompile(`(?m)^KillWait\s*=\s*(\d+) sec`)

// killWaitEnv is the environment that tells the agents how long Slurm lets a job
// live that it ends. Where Slurm does not say, or the site did, it is empty.
func killWaitEnv(ctx context.Context, env func(string) string) []string {
	if env(envKillWait) != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scontrolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "scontrol", "show", "config")
	cmd.WaitDelay = scontrolTimeout
	config, err := cmd.Output()
	if err != nil {
		return nil
	}
	wait, said := killWaitOf(config)
	if !said {
		return nil
	}
	return []string{fmt.Sprintf("%s=%s", envKillWait, wait)}
}

// killWaitOf reads how long agents have in "scontrol show config".
func killWaitOf(config []byte) (wait time.Duration, said bool) {
	found := killWaitLine.FindSubmatch(config)
	if found == nil {
		return 0, false
	}
	seconds, err := strconv.ParseUint(string(found[1]), 10, 16) // as Slurm has it
	if err != nil {
		return 0, false
	}
	return max(time.Duration(seconds)*time.Second-killMargin, minKillWait), true
}
