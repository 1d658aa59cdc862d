package jobset

import (
	"fmt"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Plugin makes, names and reads JobSets.
type Plugin struct {
	reader client.Reader
}

var (
	_ framework.Watcher              = (*Plugin)(nil)
	_ framework.Validator            = (*Plugin)(nil)
	_ framework.PodNetworkIdentifier = (*Plugin)(nil)
	_ framework.ComponentBuilder     = (*Plugin)(nil)
	_ framework.StatusReporter       = (*Plugin)(nil)
)

// New makes the plugin. The reader reads JobSets.
func New(reader client.Reader) *Plugin { return &Plugin{reader: reader} }

// Name is Kubeflow's.
func (*Plugin) Name() string { return "JobSet" }

// Watches are the JobSets of TrainJobs.
func (*Plugin) Watches() []framework.Watch {
	return []framework.Watch{{Object: &jobsetv1alpha2.JobSet{}}}
}

// IdentifyPodNetwork gives each pod the host name that JobSet gives it, by Job
// and then by pod.
func (*Plugin) IdentifyPodNetwork(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	subdomain := info.Subdomain(trainJob)
	for i := range info.PodSets {
		p := &info.PodSets[i]
		p.Endpoints = endpoints(trainJob.Name+"-"+p.Name, subdomain, p.Replicas, p.Count)
	}
	return nil
}

func endpoints(name, subdomain string, jobs, pods int32) iter.Seq[string] {
	return func(yield func(string) bool) {
		for job := range jobs {
			for pod := range pods {
				if !yield(fmt.Sprintf("%s-%d-%d.%s", name, job, pod, subdomain)) {
					return
				}
			}
		}
	}
}
