package jax

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/distributed"
)

// What jax.distributed reads.
const (
	envNumProcesses = "JAX_NUM_PROCESSES"
	envProcessID    = "JAX_PROCESS_ID"
	envCoordinator  = "JAX_COORDINATOR_ADDRESS"
)

// Plugin enforces the policy jax.
type Plugin struct{}

var _ framework.MLPolicyEnforcer = (*Plugin)(nil)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "JAX" }

// EnforceMLPolicy sets the number of nodes and, for a TrainJob that has a
// spec.trainer, the training container's variables and port.
func (*Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if info.MLPolicy == nil || info.MLPolicy.JAX == nil {
		return nil
	}
	nodes := distributed.SetNodes(info)
	c := info.TrainingContainer()
	if c == nil || info.Trainer == nil {
		return nil
	}
	framework.UpsertEnv(&c.Env,
		corev1.EnvVar{Name: envNumProcesses, Value: strconv.Itoa(int(nodes))},
		distributed.Rank(envProcessID),
		corev1.EnvVar{Name: envCoordinator, Value: distributed.Address(info, trainJob)},
	)
	distributed.Expose(c)
	return nil
}
