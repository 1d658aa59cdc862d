package plainml

import (
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/distributed"
)

// Plugin applies the TrainJob's numNodes and env.
type Plugin struct{}

var _ framework.MLPolicyEnforcer = (*Plugin)(nil)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "PlainML" }

// EnforceMLPolicy gives the trainer step the TrainJob's number of nodes, and its
// container the TrainJob's variables.
func (*Plugin) EnforceMLPolicy(info *framework.Info, _ *v1alpha1.TrainJob) error {
	if !applies(info.MLPolicy) {
		return nil
	}
	distributed.SetNodes(info)
	if c := info.TrainingContainer(); c != nil && info.Trainer != nil {
		framework.UpsertEnv(&c.Env, info.Trainer.Env...)
	}
	return nil
}

func applies(policy *v1alpha1.MLPolicy) bool {
	return policy == nil || policy.Torch == nil && policy.MPI == nil && policy.JAX == nil
}
