package compat

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	theirs "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"

	ours "github.com/gangline/gangline/controller/api/v1alpha1"
)

// pair is one type of the wire, ours and theirs.
type pair struct{ ours, theirs any }

var pairs = map[string]pair{
	"TrainJob":                    {ours.TrainJob{}, theirs.TrainJob{}},
	"TrainJobList":                {ours.TrainJobList{}, theirs.TrainJobList{}},
	"TrainingRuntime":             {ours.TrainingRuntime{}, theirs.TrainingRuntime{}},
	"TrainingRuntimeList":         {ours.TrainingRuntimeList{}, theirs.TrainingRuntimeList{}},
	"ClusterTrainingRuntime":      {ours.ClusterTrainingRuntime{}, theirs.ClusterTrainingRuntime{}},
	"ClusterTrainingRuntimeList":  {ours.ClusterTrainingRuntimeList{}, theirs.ClusterTrainingRuntimeList{}},
	"UpdateTrainJobStatusRequest": {ours.UpdateTrainJobStatusRequest{}, theirs.UpdateTrainJobStatusRequest{}},
}

// differences are the paths, by their end, that are not the same on purpose.
var differences = map[string]string{
	// A time that is not set is null in theirs, which the API server drops, and
	// absent in ours.
	".trainerStatus.lastUpdatedTime": "theirs: struct lastUpdatedTime; ours: struct lastUpdatedTime,omitzero",
}

func TestEveryPathIsTheSame(t *testing.T) {
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			mine, other := pathsOf(reflect.TypeOf(p.ours)), pathsOf(reflect.TypeOf(p.theirs))
			require.NotEmpty(t, mine)
			all := maps.Clone(mine)
			maps.Copy(all, other)
			for path := range all {
				if mine[path] == other[path] {
					continue
				}
				found := fmt.Sprintf("theirs: %s; ours: %s", other[path], mine[path])
				assert.Equal(t, expected(path), found, "%s (nothing after ours or theirs: it has no such path)", path)
			}
		})
	}
}

func expected(path string) string {
	for end, difference := range differences {
		if strings.HasSuffix(path, end) {
			return difference
		}
	}
	return "no difference"
}

// The walk must see what matters, or the test above would compare nothing.
func TestPathsHaveKindsAndTags(t *testing.T) {
	jobs, runtimes := pathsOf(reflect.TypeFor[theirs.TrainJob]()), pathsOf(reflect.TypeFor[theirs.TrainingRuntime]())
	const patched = ".spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
	assert.Equal(t, "struct metadata", jobs[".metadata"])
	assert.Equal(t, "*int32 numNodes,omitempty", jobs[".spec.trainer.numNodes"])
	assert.Equal(t, "map[string]string nodeSelector,omitempty", jobs[patched+".nodeSelector"])
	assert.Equal(t, "[]struct conditions,omitempty", jobs[".status.conditions"])
	assert.Equal(t, "*struct torch,omitempty", runtimes[".spec.mlPolicy.torch"], "of an inlined struct")
	assert.Equal(t, "[]struct containers patch:merge,name",
		runtimes[".spec.template.spec.replicatedJobs[].template.spec.template.spec.containers"])
}

// pathsOf walks everything that JSON has of a type: for each path, the kind of
// the field and the tags that steer JSON and strategic merges.
func pathsOf(t reflect.Type) map[string]string {
	paths := map[string]string{}
	walk(t, "", nil, paths)
	return paths
}

func walk(t reflect.Type, path string, above []reflect.Type, paths map[string]string) {
	switch t.Kind() {
	case reflect.Pointer:
		walk(t.Elem(), path, above, paths)
	case reflect.Slice:
		walk(t.Elem(), path+"[]", above, paths)
	case reflect.Map:
		walk(t.Elem(), path+"{}", above, paths)
	case reflect.Struct:
		for _, a := range above {
			if a == t {
				return // it holds itself
			}
		}
		for i := range t.NumField() {
			field(t.Field(i), path, append(above[:len(above):len(above)], t), paths)
		}
	}
}

func field(f reflect.StructField, path string, above []reflect.Type, paths map[string]string) {
	tag, tagged := f.Tag.Lookup("json")
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case !tagged || name == "-":
		return
	case name == "": // inline
		walk(f.Type, path, above, paths)
		return
	}
	at := path + "." + name
	described := kind(f.Type) + " " + strings.Join(effective(f.Type, name, options), ",")
	if strategy, key := f.Tag.Get("patchStrategy"), f.Tag.Get("patchMergeKey"); strategy+key != "" {
		described += " patch:" + strategy + "," + key
	}
	paths[at] = described
	walk(f.Type, at, above, paths)
}

// effective is a tag without the options that do nothing: no struct is empty to
// encoding/json.
func effective(t reflect.Type, name, options string) []string {
	tag := []string{name}
	for _, option := range strings.Split(options, ",") {
		if option != "" && !(option == "omitempty" && t.Kind() == reflect.Struct) {
			tag = append(tag, option)
		}
	}
	return tag
}

// kind is a type without its name, which may differ: what JSON sees of it.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + kind(t.Elem())
	case reflect.Slice:
		return "[]" + kind(t.Elem())
	case reflect.Map:
		return "map[" + kind(t.Key()) + "]" + kind(t.Elem())
	default:
		return t.Kind().String()
	}
}
