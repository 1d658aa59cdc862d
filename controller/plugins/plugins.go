// Package plugins lists the pipeline's plugins, in the order in which each phase
// runs them. The order is part of the result: see each plugin.
package plugins

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/plugins/coscheduling"
	"github.com/gangline/gangline/controller/plugins/flux"
	"github.com/gangline/gangline/controller/plugins/jax"
	"github.com/gangline/gangline/controller/plugins/jobset"
	"github.com/gangline/gangline/controller/plugins/mpi"
	"github.com/gangline/gangline/controller/plugins/placement"
	"github.com/gangline/gangline/controller/plugins/plainml"
	"github.com/gangline/gangline/controller/plugins/torch"
	"github.com/gangline/gangline/controller/plugins/trainjobstatus"
	"github.com/gangline/gangline/controller/plugins/volcano"
	"github.com/gangline/gangline/controller/plugins/xgboost"
)

// Options are what plugins need from outside.
type Options struct {
	// Reader reads what decides a pod group or an admission: JobSets, limit
	// ranges, classes.
	Reader client.Reader
	// TrainJobStatus is set if the feature gate of that name is on.
	TrainJobStatus *trainjobstatus.Options
}

// All are the plugins in their order. Secrets and ConfigMaps come before the
// JobSet whose pods mount them.
func All(o Options) []framework.Plugin {
	all := []framework.Plugin{
		plainml.New(),
		torch.New(),
		mpi.New(),
		jax.New(),
		xgboost.New(),
		flux.New(),
		coscheduling.New(o.Reader),
		volcano.New(o.Reader),
		placement.New(),
		jobset.New(o.Reader),
	}
	if o.TrainJobStatus != nil {
		all = append(all, trainjobstatus.New(*o.TrainJobStatus))
	}
	return all
}
