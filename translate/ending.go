package translate

import (
	"fmt"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// Exit codes that stand for a process whose own exit code nobody saw.
const (
	exitKilled     = 137 // 128 + SIGKILL
	exitTerminated = 143 // 128 + SIGTERM
)

// endings maps how an allocation ended to what becomes of the pods that had
// not ended by themselves. The keys are wlm.Outcome's values. Only what the
// infrastructure did is a disruption; a time limit is the user's own.
var endings = map[string]Ending{
	"Completed":   {Reason: wellknown.ReasonAllocationEnded, ContainerReason: "ContainerStatusUnknown", ExitCode: exitKilled},
	"Failed":      {Reason: wellknown.ReasonAllocationEnded, ContainerReason: "ContainerStatusUnknown", ExitCode: exitKilled},
	"Cancelled":   {Reason: wellknown.ReasonCancelled, ContainerReason: "Error", ExitCode: exitTerminated},
	"Timeout":     {Reason: wellknown.ReasonDeadline, ContainerReason: "Error", ExitCode: exitTerminated},
	"NodeFailure": {Reason: wellknown.ReasonNodeFailure, ContainerReason: "ContainerStatusUnknown", ExitCode: exitKilled, Disruption: true},
	"Preempted":   {Reason: wellknown.ReasonPreempted, ContainerReason: "Error", ExitCode: exitTerminated, Disruption: true},
	"Requeued":    {Reason: wellknown.ReasonRequeued, ContainerReason: "Error", ExitCode: exitTerminated, Disruption: true},
	"OutOfMemory": {Reason: wellknown.ReasonOOMKilled, ContainerReason: wellknown.ReasonOOMKilled, ExitCode: exitKilled},
	"Lost":        {Reason: wellknown.ReasonAllocationLost, ContainerReason: "ContainerStatusUnknown", ExitCode: exitKilled, Disruption: true},
}

// AllocationEnding is what becomes of a pod whose allocation ended before it.
// An outcome that the table does not know reads as a plain failure.
func AllocationEnding(ended spool.Ended) Ending {
	e, ok := endings[ended.Outcome]
	if !ok {
		e = endings["Failed"]
	}
	e.Message = ended.Message
	return e
}

// DeadlineEnding is what becomes of a pod that has run longer than its
// activeDeadlineSeconds, in kubelet's words.
func DeadlineEnding() Ending {
	return Ending{
		Reason:          wellknown.ReasonDeadline,
		Message:         "Pod was active on the node longer than the specified deadline",
		ContainerReason: "Error",
		ExitCode:        exitTerminated,
	}
}

// StoppedEnding is what becomes of a pod that was deleted before it started.
func StoppedEnding() Ending {
	return Ending{
		Reason:          "Deleted",
		Message:         "the pod was deleted before it started",
		ContainerReason: "Error",
		ExitCode:        exitTerminated,
	}
}

// EndedMessage says how an allocation ended, for people.
func EndedMessage(manager, jobID, state, reason, detail string) string {
	m := fmt.Sprintf("%s job %s ended in state %s", manager, jobID, state)
	if reason != "" && reason != "None" {
		m += " (" + reason + ")"
	}
	if detail != "" {
		m += ": " + detail
	}
	return m
}
