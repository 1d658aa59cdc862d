package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/translate/wellknown"
)

// cures say what helps against a reason (package wellknown). Reasons whose message names
// the cure itself, as the workload manager's do, are not here.
var cures = map[string]string{
	wellknown.ReasonWaitingForGang:         "see why the missing pods do not come: \"kubectl gangline why\" of one of them, or of the owner",
	wellknown.ReasonSubmissionFailed:       "it is tried again by itself, every 5 minutes at the latest; if what it asks for is what is wrong, change that and create it anew",
	wellknown.ReasonSiteUnreachable:        "it goes on by itself when the site can be reached again; if it lasts, tell the cluster's administrator",
	wellknown.ReasonNoHPCUser:              "ask the cluster's administrator to map this namespace or ServiceAccount to an HPC user",
	wellknown.ReasonNotAllowed:             "ask for less, or ask the cluster's administrator to allow it for this namespace",
	wellknown.ReasonOwnerGone:              "delete the pod",
	wellknown.ReasonNoCommand:              "give the container a command: images are not pulled, so their entrypoints are not known",
	wellknown.ReasonDoesNotFit:             "ask for less on one node",
	"StartError":                           "the program was not found on the HPC node, or may not be executed there: give its full path, or correct PATH; images are not pulled",
	wellknown.ReasonConfigError:            "create what is missing, or correct its name; the pod starts by itself then",
	wellknown.ReasonDeadline:               "ask for more time (gangline.dev/time-limit, or activeDeadlineSeconds), or write checkpoints",
	wellknown.ReasonOOMKilled:              "request more memory",
	wellknown.ReasonEvicted:                "raise the limit of the volume or of ephemeral-storage, or write less",
	wellknown.ReasonNodeFailure:            "create it anew, or let a Job or JobSet do so: the fault is a node's, not the program's",
	wellknown.ReasonPreempted:              "create it anew, or let a Job or JobSet do so; a QOS or partition that is not preempted avoids it",
	wellknown.ReasonRequeued:               "create it anew, or let a Job or JobSet do so",
	wellknown.ReasonAllocationLost:         "create it anew; if it happens again, ask the cluster's administrator who cleans the spool",
	wellknown.ReasonCancelled:              "find out who has cancelled the job (sacct on the site), and create the gang anew",
	wellknown.ReasonPrivateRootUnavailable: "leave the mount out, or mount it at a path that exists; or ask the site to allow user namespaces",
}

// codes say what exit codes mean that shells and kernels make.
var codes = map[int32]string{
	126: "the program exists and may not be executed: look at its permissions, and at the shared filesystem's mount options",
	127: "the program was not found on the HPC node: give its full path, or correct PATH; images are not pulled",
	132: "it executed an instruction that the processor does not have: compile for the HPC nodes' processors (gangline.dev/constraint chooses nodes)",
	134: "it ended itself (abort): its log says more",
	137: "it was killed (SIGKILL), most often for want of memory: request more memory",
	139: "it accessed memory that is not its own (segmentation fault): its log may say more",
	143: "it was told to end (SIGTERM)",
}

// refusals say what helps against what the Kubernetes scheduler says, by parts of it.
var refusals = []struct{ says, cure string }{
	{"untolerated taint", "tolerate the virtual node's taint virtual-kubelet.io/provider=gangline; a TrainJob gets that with the annotation gangline.dev/cluster"},
	{"Insufficient", "wait, or ask for less: all that the virtual node lets wait is waiting"},
	{"didn't match Pod's node affinity/selector", "correct the node selector: \"kubectl get nodes -L gangline.dev/cluster,gangline.dev/partition\" shows what there is"},
	{"node(s) were unschedulable", "the virtual node is cordoned: ask the cluster's administrator"},
}

// gates are scheduling gates that are known, by what their names begin with.
const kueueGate = "kueue.x-k8s.io/"

func helps(s subject) string {
	pod := s.pod.Object
	switch s.State {
	case gangs.Unscheduled:
		if slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return strings.HasPrefix(g.Name, kueueGate) }) {
			return kueueWaits
		}
		for _, r := range refusals {
			if strings.Contains(s.Says, r.says) {
				return r.cure
			}
		}
		return ""
	case gangs.Forming:
		if s.Reason == "" && s.Since != nil && s.Now.Sub(s.Since.Time) > soon {
			return "ask the cluster's administrator whether gangline-node runs"
		}
	case gangs.Completed, gangs.Stopping:
		return ""
	case gangs.Failed:
		if _, end := gangs.FailedContainer(pod); end != nil && cures[s.Reason] == "" {
			if cure := codes[end.ExitCode]; cure != "" {
				return cure
			}
			return "its log may say why (kubectl gangline logs pod/" + s.pod.Name + ")"
		}
	case gangs.Running:
		if s.Reason == "CrashLoopBackOff" {
			return "the log of its last run may say why (kubectl logs --previous " + s.pod.Name + ")"
		}
	}
	return cures[s.Reason]
}

// kueueWaits is what helps while Kueue has not admitted a workload.
const kueueWaits = "see what Kueue says of it (kubectl get workloads)"
