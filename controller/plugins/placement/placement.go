package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/translate/wellknown"
)

// Plugin places pods on the HPC side.
type Plugin struct{}

var (
	_ framework.Validator = (*Plugin)(nil)
	_ framework.Placer    = (*Plugin)(nil)
)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is unique among the plugins.
func (*Plugin) Name() string { return "Placement" }

// Place binds the pods that belong on the TrainJob's cluster to its virtual
// nodes, and gives the JobSet the wishes of their allocation.
func (*Plugin) Place(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if info.Cluster == "" {
		return nil
	}
	for _, p := range chosen(info) {
		send(p.Pod(), info.Cluster)
		if trainJob.Spec.Trainer != nil && trainJob.Spec.Trainer.Image != nil {
			shareImage(p.Pod(), *trainJob.Spec.Trainer.Image)
		}
	}
	passWishes(info, trainJob)
	return nil
}

// shareImage gives the trainer's image to the processes that an MPI runtime has elsewhere than
// in the trainer's pod, where the runtime names none: a program is in the same image on every
// node.
func shareImage(pod *corev1.PodSpec, image string) {
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.Name == v1alpha1.ContainerNode && c.Image == wellknown.ImageHost {
			c.Image = image
		}
	}
}

// chosen are the pods that belong on the HPC side: those that ask for a GPU and,
// if none does, those that train, since whoever names a cluster wants to run
// there. An MPI runtime's launcher and workers are never parted.
func chosen(info *framework.Info) []*framework.PodSet {
	mpi := info.MLPolicy != nil && info.MLPolicy.MPI != nil
	var gpu, training []*framework.PodSet
	anyGPU := false
	for i := range info.PodSets {
		p := &info.PodSets[i]
		asks := asksForGPU(p.Pod())
		together := mpi && (p.Name == v1alpha1.JobLauncher || p.Name == v1alpha1.JobNode)
		anyGPU = anyGPU || asks
		if asks || together {
			gpu = append(gpu, p)
		}
		if p.Ancestor == v1alpha1.AncestorTrainer || together {
			training = append(training, p)
		}
	}
	if anyGPU {
		return gpu
	}
	return training
}

func asksForGPU(pod *corev1.PodSpec) bool {
	for _, list := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
		for i := range list {
			if framework.GPUs(list[i].Resources) > 0 {
				return true
			}
		}
	}
	return false
}

// send binds pods to the virtual nodes of a cluster. Pods whose template names a
// cluster already are the runtime author's business.
func send(pod *corev1.PodSpec, cluster string) {
	if _, named := pod.NodeSelector[wellknown.Cluster]; named {
		return
	}
	if pod.NodeSelector == nil {
		pod.NodeSelector = map[string]string{}
	}
	pod.NodeSelector[wellknown.Cluster] = cluster
	ours := corev1.Toleration{
		Key:      wellknown.TaintKey,
		Operator: corev1.TolerationOpEqual,
		Value:    wellknown.TaintValue,
		Effect:   corev1.TaintEffectNoSchedule,
	}
	for i := range pod.Tolerations {
		if pod.Tolerations[i].MatchToleration(&ours) {
			return
		}
	}
	pod.Tolerations = append(pod.Tolerations, ours)
}
