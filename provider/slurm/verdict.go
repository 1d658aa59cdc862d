package slurm

import (
	"slices"
	"strings"
)

// Uncertain finds words of Slurm's that are no verdict on the job: the controller
// was not reached, or it may take the same job later. Source: Slurm's own table
// of errors (slurm_errno) and, for SubmitJob, its reasons for limits on how many
// jobs may wait at a time.
func Uncertain(said string) bool {
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
	}, func(words string) bool { return strings.Contains(said, words) })
}

// AlreadyGone reads the answer to a cancellation: the job has ended, or never was.
// scancel of Slurm 22.05 is silent about such jobs; other versions are not.
func AlreadyGone(said string) bool {
	return strings.Contains(said, "Invalid job id specified") ||
		strings.Contains(said, "Job/step already completing or completed")
}
