package mpi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Plugin prepares the jobs "launcher" and "node" of an MPI runtime.
type Plugin struct{}

var (
	_ framework.Watcher          = (*Plugin)(nil)
	_ framework.Validator        = (*Plugin)(nil)
	_ framework.MLPolicyEnforcer = (*Plugin)(nil)
	_ framework.ComponentBuilder = (*Plugin)(nil)
)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "MPI" }

// Watches are the kinds of what Build makes.
func (*Plugin) Watches() []framework.Watch { return framework.Owned("ConfigMap", "Secret") }

// EnforceMLPolicy gives job "node" the TrainJob's number of nodes, both jobs the
// SSH keys, and the launcher the hostfile and its variables.
func (*Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if !applies(info) {
		return nil
	}
	policy := info.MLPolicy.MPI
	impl, err := implementationOf(info, trainJob)
	if err != nil {
		return err
	}
	setNodes(info)
	keys := corev1.VolumeMount{Name: sshVolumeName, MountPath: ptr.Deref(policy.SSHAuthMountPath, "/root/.ssh")}
	hosts := corev1.VolumeMount{Name: hostfileVolumeName, MountPath: hostfileDir}

	for _, name := range []string{v1alpha1.JobNode, v1alpha1.JobLauncher} {
		p := info.PodSet(name)
		if p == nil {
			continue
		}
		framework.UpsertVolumes(&p.Pod().Volumes, sshVolume(trainJob.Name))
		c := container(p)
		if c != nil {
			framework.UpsertVolumeMounts(&c.VolumeMounts, keys)
		}
		if name != v1alpha1.JobLauncher {
			continue
		}
		framework.UpsertVolumes(&p.Pod().Volumes, hostfileVolume(trainJob.Name))
		if c != nil {
			framework.UpsertVolumeMounts(&c.VolumeMounts, hosts)
			framework.UpsertEnv(&c.Env, impl.launcherEnv(procsPerNode(info), info.Cluster)...)
		}
	}
	return nil
}

// Build makes the Secret of SSH keys and the hostfile's ConfigMap.
func (*Plugin) Build(_ context.Context, info *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	if !applies(info) {
		return nil, nil
	}
	impl, err := implementationOf(info, trainJob)
	if err != nil {
		return nil, err
	}
	text, err := hostfile(info, impl)
	if err != nil {
		return nil, err
	}
	return []framework.Component{sshSecret(trainJob), hostfileConfigMap(trainJob, text)}, nil
}

func applies(info *framework.Info) bool {
	return info.MLPolicy != nil && info.MLPolicy.MPI != nil
}

// container is the one that runs MPI: the training container, or the pod's
// first if it has none, as the launcher of the KEP's example.
func container(p *framework.PodSet) *corev1.Container {
	if c := p.TrainingContainer(); c != nil {
		return c
	}
	if all := p.Pod().Containers; len(all) > 0 {
		return &all[0]
	}
	return nil
}

// setNodes gives job "node" the TrainJob's number of nodes, less the launcher if
// that is one of them, but never none.
//
// The runtime's number reaches the trainer step only, which is the launcher in
// Kubeflow's runtimes. The KEP means nodes by it and has one launcher; a
// runtime in the KEP's form gets what the KEP means.
func setNodes(info *framework.Info) {
	var nodes *int32
	if launcher := info.PodSet(v1alpha1.JobLauncher); isKEPs(launcher) {
		launcher.Count, nodes = 1, info.MLPolicy.NumNodes
	}
	if info.Trainer != nil && info.Trainer.NumNodes != nil {
		nodes = info.Trainer.NumNodes
	}
	node := info.PodSet(v1alpha1.JobNode)
	if node == nil || nodes == nil {
		return
	}
	node.Count = *nodes
	if info.LauncherIsNode() {
		node.Count = max(*nodes-1, 1)
	}
}

// isKEPs tells a launcher of the KEP's form: it is the trainer step, and no
// container of it is called "node", which Kubeflow Trainer would leave alone.
func isKEPs(launcher *framework.PodSet) bool {
	return launcher != nil && launcher.Ancestor == v1alpha1.AncestorTrainer &&
		launcher.Container(v1alpha1.ContainerNode) == nil
}

// procsPerNode is the TrainJob's number of processes, or else the runtime's,
// where one process means one for each GPU.
func procsPerNode(info *framework.Info) int32 {
	if info.Trainer != nil && info.Trainer.NumProcPerNode != nil {
		return *info.Trainer.NumProcPerNode
	}
	procs := ptr.Deref(info.MLPolicy.MPI.NumProcPerNode, 1)
	if procs == 1 {
		return max(procs, int32(framework.GPUs(info.ResourcesPerNode())))
	}
	return procs
}
