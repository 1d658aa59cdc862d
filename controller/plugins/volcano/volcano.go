package volcano

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/internal/podgroup"
)

const (
	// annotationGroup tells Volcano a pod's group.
	annotationGroup = "scheduling.k8s.io/group-name"
	// annotationQueue on the JobSet names the group's queue.
	annotationQueue = "scheduling.volcano.sh/queue-name"
)

// The API's defaults of networkTopology.
const (
	defaultMode v1alpha1.NetworkTopologyMode = "hard"
	defaultTier int                          = 1
)

// Plugin enforces the policy volcano.
type Plugin struct {
	reader client.Reader
}

var (
	_ framework.Watcher                = (*Plugin)(nil)
	_ framework.Validator              = (*Plugin)(nil)
	_ framework.PodGroupPolicyEnforcer = (*Plugin)(nil)
	_ framework.ComponentBuilder       = (*Plugin)(nil)
)

// New makes the plugin. The reader reads TrainJobs, runtimes and priority
// classes.
func New(reader client.Reader) *Plugin { return &Plugin{reader: reader} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "Volcano" }

func kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}
}

// Watches are the PodGroups, and what may change their resources.
func (p *Plugin) Watches() []framework.Watch { return podgroup.Watches(kind(), p.reader) }

// EnforcePodGroupPolicy puts all pods into the TrainJob's group.
func (*Plugin) EnforcePodGroupPolicy(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	if policy(info) != nil {
		info.PodAnnotations[annotationGroup] = trainJob.Name
	}
	return nil
}

// Build makes the PodGroup.
func (*Plugin) Build(_ context.Context, info *framework.Info, trainJob *v1alpha1.TrainJob) ([]framework.Component, error) {
	if policy(info) == nil {
		return nil, nil
	}
	return []framework.Component{podgroup.Component(kind(), info, trainJob, spec(info))}, nil
}

// spec is what the group has besides its members. Where several pod templates
// have a priority, the last one's counts.
func spec(info *framework.Info) map[string]any {
	s := map[string]any{}
	if queue, ok := info.Annotations[annotationQueue]; ok {
		s["queue"] = queue
	}
	for i := range info.PodSets {
		if class := info.PodSets[i].Pod().PriorityClassName; class != "" {
			s["priorityClassName"] = class
		}
	}
	if t := policy(info).NetworkTopology; t != nil {
		s["networkTopology"] = map[string]any{
			"mode":               string(cmp.Or(t.Mode, defaultMode)),
			"highestTierAllowed": int64(ptr.Deref(t.HighestTierAllowed, defaultTier)),
		}
	}
	return s
}

func policy(info *framework.Info) *v1alpha1.VolcanoPodGroupPolicySource {
	if info.PodGroupPolicy == nil {
		return nil
	}
	return info.PodGroupPolicy.Volcano
}
