package torch

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/distributed"
)

// The options that torchrun takes from the environment.
const (
	envNodes        = "PET_NNODES"
	envProcsPerNode = "PET_NPROC_PER_NODE"
	envNodeRank     = "PET_NODE_RANK"
	envMasterAddr   = "PET_MASTER_ADDR"
	envMasterPort   = "PET_MASTER_PORT"
)

// Plugin enforces the policy torch.
type Plugin struct{}

var (
	_ framework.Validator        = (*Plugin)(nil)
	_ framework.MLPolicyEnforcer = (*Plugin)(nil)
)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "Torch" }

// EnforceMLPolicy sets the number of nodes and, for a TrainJob that has a
// spec.trainer, the training container's variables and port. The containers that
// envInjection names get the variables in any case; it is an error if one does
// not exist.
func (*Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if !applies(info) {
		return nil
	}
	s := enforcedScale(info, distributed.SetNodes(info))
	if c := info.TrainingContainer(); c != nil && info.Trainer != nil {
		framework.UpsertEnv(&c.Env, info.Trainer.Env...)
		framework.UpsertEnv(&c.Env, nodeEnv(s)...)
		if isTorchtune(info.Trainer.Command) {
			info.Trainer.Command = append(info.Trainer.Command, tuneWords(info, trainJob, s)...)
		} else {
			framework.UpsertEnv(&c.Env, masterEnv(info, trainJob)...)
		}
		distributed.Expose(c)
	}
	return injectEnv(info, trainJob, s)
}

func applies(info *framework.Info) bool {
	return info.MLPolicy != nil && info.MLPolicy.Torch != nil
}

func nodeEnv(s scale) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envNodes, Value: strconv.Itoa(int(s.nodes))},
		{Name: envProcsPerNode, Value: s.procs.String()},
		distributed.Rank(envNodeRank),
	}
}

func masterEnv(info *framework.Info, trainJob *v1alpha1.TrainJob) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: envMasterAddr, Value: distributed.Host(info, trainJob)},
		{Name: envMasterPort, Value: distributed.Port()},
	}
}

// injectEnv gives further containers the variables. They get the master's too
// when the training container runs torchtune: they check the way to it, or speak
// to it, and have no command line of torchtune's.
func injectEnv(info *framework.Info, trainJob *v1alpha1.TrainJob, s scale) error {
	return eachTarget(info, func(target v1alpha1.EnvInjectionTarget, name string, c *corev1.Container) error {
		if c == nil {
			return errors.New(notFound(target, name))
		}
		framework.UpsertEnv(&c.Env, nodeEnv(s)...)
		framework.UpsertEnv(&c.Env, masterEnv(info, trainJob)...)
		return nil
	})
}

// eachTarget calls do for every container that envInjection names, with nil for
// one that does not exist, up to the first error.
func eachTarget(info *framework.Info, do func(target v1alpha1.EnvInjectionTarget, name string, c *corev1.Container) error) error {
	if info.MLPolicy.Torch.EnvInjection == nil {
		return nil
	}
	for _, target := range info.MLPolicy.Torch.EnvInjection.Targets {
		pods := info.PodSet(target.JobName)
		for _, name := range target.ContainerNames {
			var c *corev1.Container
			if pods != nil {
				c = pods.AnyContainer(name)
			}
			if err := do(target, name, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func notFound(target v1alpha1.EnvInjectionTarget, container string) string {
	return fmt.Sprintf("envInjection target podSet %q container %q not found in runtime template",
		target.JobName, container)
}
