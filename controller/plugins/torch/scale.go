package torch

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// auto leaves the number of processes to torchrun, which starts one for each
// GPU it sees.
const auto = "auto"

// scale is how large a training is.
type scale struct {
	nodes int32
	// procs is the number of processes of a node, or auto.
	procs intstr.IntOrString
	// gpus is the number of GPUs of a node.
	gpus int
}

// statedScale is what the TrainJob says; admission judges it by that.
func statedScale(info *framework.Info, trainer *v1alpha1.Trainer) scale {
	return scale{
		nodes: ptr.Deref(trainer.NumNodes, 1),
		procs: statedProcs(trainer),
		gpus:  framework.GPUs(info.ResourcesPerNode()),
	}
}

// enforcedScale is what is run on that many nodes: without GPUs, auto means one
// process for each CPU.
func enforcedScale(info *framework.Info, nodes int32) scale {
	resources := info.ResourcesPerNode()
	s := scale{nodes: nodes, procs: statedProcs(info.Trainer), gpus: framework.GPUs(resources)}
	if s.procs.Type == intstr.String && s.gpus == 0 {
		s.procs = intstr.FromInt32(max(1, cpus(resources)))
	}
	return s
}

func statedProcs(trainer *v1alpha1.Trainer) intstr.IntOrString {
	if trainer == nil || trainer.NumProcPerNode == nil {
		return intstr.FromString(auto)
	}
	return intstr.FromInt32(*trainer.NumProcPerNode)
}

// cpus counts the CPUs that a container requests or, if it requests none, is
// limited to. A part of one counts as one.
func cpus(resources corev1.ResourceRequirements) int32 {
	if n := resources.Requests.Cpu(); !n.IsZero() {
		return int32(n.Value())
	}
	return int32(resources.Limits.Cpu().Value())
}

func (s scale) procsAre(is func(int32) bool) bool {
	return s.procs.Type == intstr.Int && is(s.procs.IntVal)
}

// oneDevice tells whether the training has a single GPU or process.
func (s scale) oneDevice() bool {
	return s.nodes == 1 && (s.gpus == 1 || s.procsAre(func(n int32) bool { return n == 1 }))
}

// meets tells whether several processes have to find each other.
func (s scale) meets() bool {
	return s.nodes > 1 ||
		s.procsAre(func(n int32) bool { return n > 1 }) ||
		s.procs.Type == intstr.String && s.gpus > 1
}
