package placement

import (
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/translate/wellknown"
)

// passWishes gives the JobSet each wish of the TrainJob, or else of its runtime,
// or else of its namespace, under the name that it has there. The JobSet's own
// metadata, from the runtime's template and the TrainJob's patches, comes first.
func passWishes(info *framework.Info, trainJob *v1alpha1.TrainJob) {
	sources := []map[string]string{
		trainJob.Annotations, info.RuntimeMeta.Annotations, info.NamespaceMeta.Annotations,
	}
	for _, wish := range wellknown.Wishes() {
		if carries(info.Annotations, wish) {
			continue
		}
		for _, annotations := range sources {
			if name := given(annotations, wish); name != "" {
				info.Annotations[name] = annotations[name]
				break
			}
		}
	}
}

// carries tells whether a wish is there under either name, be it empty: a wish
// under our name would otherwise hide one under slurm-bridge's.
func carries(annotations map[string]string, wish wellknown.Wish) bool {
	_, ours := annotations[wish.Name]
	_, alias := annotations[wish.Alias]
	return ours || alias
}

// given is the name under which a wish has a value, ours before slurm-bridge's,
// "" if it has none. An empty one counts as absent, as on the virtual node.
func given(annotations map[string]string, wish wellknown.Wish) string {
	for _, name := range []string{wish.Name, wish.Alias} {
		if annotations[name] != "" {
			return name
		}
	}
	return ""
}
