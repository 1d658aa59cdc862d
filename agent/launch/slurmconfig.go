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

// slurmConfig is what scontrol show config prints, "" where Slurm does not say.
type slurmConfig string

func askSlurm(ctx context.Context) slurmConfig {
	ctx, cancel := context.WithTimeout(ctx, scontrolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "scontrol", "show", "config")
	cmd.WaitDelay = scontrolTimeout
	config, err := cmd.Output()
	if err != nil {
		return ""
	}
	return slurmConfig(config)
}

var (
	killWaitLine = regexp.MustCompile(`(?m)^KillWait\s*=\s*(\d+) sec`)
	// stepProgram is a program that the site has run around the tasks of steps.
	stepProgram = regexp.MustCompile(`(?m)^(TaskProlog|TaskEpilog|SrunProlog|SrunEpilog)\s*= ([^\n]*)`)
)

// killWaitEnv is the environment that tells the agents how long Slurm lets a job
// live that it ends. Where Slurm does not say, or the site did, it is empty.
func (c slurmConfig) killWaitEnv(env func(string) string) []string {
	found := killWaitLine.FindStringSubmatch(string(c))
	if env(envKillWait) != "" || found == nil {
		return nil
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil {
		return nil
	}
	wait := max(time.Duration(seconds)*time.Second-killMargin, minKillWait)
	return []string{fmt.Sprintf("%s=%s", envKillWait, wait)}
}

// stepsArePlain tells whether the tasks of a step find the same as the batch script: the
// site has nothing done around them. It is false where Slurm does not say.
func (c slurmConfig) stepsArePlain() bool {
	programs := stepProgram.FindAllStringSubmatch(string(c), -1)
	for _, p := range programs {
		if p[2] != "(null)" && p[2] != "" {
			return false
		}
	}
	return len(programs) > 0
}
