package xgboost

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/distributed"
)

// What xgboost's collective reads.
const (
	envTrackerURI  = "DMLC_TRACKER_URI"
	envTrackerPort = "DMLC_TRACKER_PORT"
	envTaskID      = "DMLC_TASK_ID"
	envNumWorker   = "DMLC_NUM_WORKER"
)

// Plugin enforces the policy xgboost.
type Plugin struct{}

var (
	_ framework.Validator        = (*Plugin)(nil)
	_ framework.MLPolicyEnforcer = (*Plugin)(nil)
)

// New makes the plugin.
func New() *Plugin { return &Plugin{} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "XGBoost" }

// Validate refuses a TrainJob that sets the collective's variables itself.
func (*Plugin) Validate(_ context.Context, info *framework.Info, _, new *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	if !applies(info) || new.Spec.Trainer == nil {
		return nil, nil
	}
	reserved := []string{envTrackerURI, envTrackerPort, envTaskID, envNumWorker}
	path := field.NewPath("spec", "trainer", "env")
	var errs field.ErrorList
	for i, env := range new.Spec.Trainer.Env {
		if slices.Contains(reserved, env.Name) {
			errs = append(errs, field.Forbidden(path.Index(i),
				fmt.Sprintf("%s is reserved for the XGBoost runtime", env.Name)))
		}
	}
	return nil, errs
}

// EnforceMLPolicy sets the number of nodes and, for a TrainJob that has a
// spec.trainer, the training container's variables and port.
func (*Plugin) EnforceMLPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if !applies(info) {
		return nil
	}
	nodes := distributed.SetNodes(info)
	c := info.TrainingContainer()
	if c == nil || info.Trainer == nil {
		return nil
	}
	workers := int(nodes) * max(framework.GPUs(info.ResourcesPerNode()), 1)
	framework.UpsertEnv(&c.Env,
		corev1.EnvVar{Name: envTrackerURI, Value: distributed.Host(info, trainJob)},
		corev1.EnvVar{Name: envTrackerPort, Value: distributed.Port()},
		distributed.Rank(envTaskID),
		corev1.EnvVar{Name: envNumWorker, Value: strconv.Itoa(workers)},
	)
	distributed.Expose(c)
	return nil
}

func applies(info *framework.Info) bool {
	return info.MLPolicy != nil && info.MLPolicy.XGBoost != nil
}
