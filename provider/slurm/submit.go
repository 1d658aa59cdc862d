package slurm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const scriptName = "launch.sh"

// script is the whole of every batch script. The agent's path and the gang's
// directory are its arguments: nothing is ever written into it.
const script = `#!/bin/sh
exec "$1" launch "$2"
`

// writeScript replaces the file as a whole, so that an sbatch that still reads
// an earlier one is not disturbed.
func writeScript(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+scriptName+".*")
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(script)
	err = errors.Join(err, tmp.Chmod(0o700), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

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
	if uncertain(a.stderr) || a.exit != byUsage && !strings.Contains(a.stderr, "sbatch: error: ") {
		return "", false
	}
	return a.ownWords(), true
}

// uncertain finds words of Slurm's that are no verdict on the job: the controller
// was not reached, or it may take the same job later. Source: Slurm's own table
// of errors (slurm_errno) and, for SubmitJob, its reasons for limits on how many
// jobs may wait at a time.
func uncertain(stderr string) bool {
	return slices.ContainsFunc([]string{
		// The way to the controller.
		"Unable to contact slurm controller",
		"Socket timed out on send/recv operation",
		"Zero Bytes were transmitted or received",
		"Message send failure",
		"Message receive failure",
		"Unexpected message received",
		"Unexpected missing socket error",
		"Received zero length message",
		"Insane message length",
		"Failed to send entire message",
		"Header lengths are longer than data received",
		"Communication connection failure",
		"Communication shutdown failure",
		"Can't find an address, check slurm.conf",
		"Incompatible versions of client and server code",
		"Connection refused",
		"Connection timed out",
		"Resource temporarily unavailable",
		// The proof of who asks.
		"Protocol authentication error",
		"Invalid authentication credential",
		"Authentication credential invalid",
		"Failed to connect to authentication agent",
		// The controller's own state.
		"Slurm backup controller in standby mode",
		"Controller is in standby mode",
		"System submissions disabled",
		"Unable to create job record, try again",
		"Unable to connect to database",
		"I/O error writing script/environment to file",
		"Error generating job credential",
		"Slurm internal error",
		"SubmitJobLimit",
		"SubmitJobsLimit",
		"SubmitJobPerUserLimit",
		"SubmitJobPerAccountLimit",
		// This side of the controller.
		"fatal:",
		"Unable to open file",
		"error while loading shared libraries",
	}, func(words string) bool { return strings.Contains(stderr, words) })
}
