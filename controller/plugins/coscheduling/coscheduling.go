package coscheduling

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/podgroup"
)

const (
	// labelPodGroup tells the scheduler a pod's group.
	labelPodGroup = "scheduling.x-k8s.io/pod-group"
	// defaultTimeout is the API's, in seconds.
	defaultTimeout int32 = 60
)

// Plugin enforces the policy coscheduling.
type Plugin struct {
	reader client.Reader
}

var (
	_ framework.Watcher                = (*Plugin)(nil)
	_ framework.PodGroupPolicyEnforcer = (*Plugin)(nil)
	_ framework.ComponentBuilder       = (*Plugin)(nil)
)

// New makes the plugin. The reader reads TrainJobs and runtimes.
func New(reader client.Reader) *Plugin { return &Plugin{reader: reader} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "CoScheduling" }

func kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"}
}

// Watches are the PodGroups, and what may change their resources.
func (p *Plugin) Watches() []framework.Watch { return podgroup.Watches(kind(), p.reader) }

// EnforcePodGroupPolicy puts all pods into the TrainJob's group.
func (*Plugin) EnforcePodGroupPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if applies(info) {
		info.PodLabels[labelPodGroup] = trainJob.Name
	}
	return nil
}

// Build makes the PodGroup.
func (*Plugin) Build(_ context.Context, info *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	if !applies(info) {
		return nil, nil
	}
	timeout := ptr.Deref(info.PodGroupPolicy.Coscheduling.ScheduleTimeoutSeconds, defaultTimeout)
	return []framework.Component{podgroup.Component(kind(), info, trainJob, map[string]any{
		"scheduleTimeoutSeconds": int64(timeout),
	})}, nil
}

func applies(info *framework.Info) bool {
	return info.PodGroupPolicy != nil && info.PodGroupPolicy.Coscheduling != nil
}
