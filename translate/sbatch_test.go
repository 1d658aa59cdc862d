package translate

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/golden"
)

const sbatchScript = "/spool/gangs/pi-1/launch.sh"

func sbatchRequest(change ...func(*Request)) Request {
	r := Request{
		Name:    "pi-1",
		Comment: "JobSet default/pi",
		Groups:  []TaskGroup{{Tasks: 4, Resources: Resources{CPUs: 2}}},
		Agent:   "/opt/gangline/gangline-agent",
		Dir:     "/spool/gangs/pi-1",
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func TestSbatchArgs(t *testing.T) {
	tests := map[string]struct {
		file    string
		request Request
	}{
		"equal tasks with nothing but CPUs": {"cpus", sbatchRequest()},
		"memory is rounded up to whole MiB per CPU": {"memory", sbatchRequest(func(r *Request) {
			r.Groups[0].Resources = Resources{CPUs: 3, MemoryMiB: 1000}
		})},
		"each task has GPUs of its own": {"gpus", sbatchRequest(func(r *Request) {
			r.Groups[0].Resources = Resources{CPUs: 12, MemoryMiB: 98304, GPUs: 8}
		})},
		"every wish is one argument": {"wishes", sbatchRequest(func(r *Request) {
			r.Wishes = Wishes{
				Partition: "gpu,gpu-long", Account: "chem 1", QOS: "high --uid=0", Constraint: "h100&(ib|roce)",
				Reservation: "school", TimeLimit: 90*time.Minute + time.Second,
			}
		})},
		"whole nodes come with their memory": {"exclusive", sbatchRequest(func(r *Request) {
			r.Groups[0].MemoryMiB = 4096
			r.Exclusive = true
		})},
		"unequal tasks make a heterogeneous job": {"heterogeneous", sbatchRequest(func(r *Request) {
			r.Groups = []TaskGroup{
				{Tasks: 1, Resources: Resources{CPUs: 1, MemoryMiB: 512}},
				{Tasks: 3, Resources: Resources{CPUs: 4, MemoryMiB: 8192, GPUs: 4}},
			}
			r.Wishes = Wishes{Partition: "gpu", Account: "chem", TimeLimit: time.Hour}
		})},
		"whatever else can be wished": {"more", sbatchRequest(func(r *Request) {
			r.Groups[0].Resources = Resources{CPUs: 3, GPUs: 2, Gres: "gpu:h100:2,shard:4"}
			r.Wishes = Wishes{
				Licenses: "ansys:2", Switches: Switches{Count: 1, Wait: 90 * time.Second}, MinNodes: 2, MaxNodes: 4, Nice: 100, WCKey: "key",
				Flags: []Flag{{Name: "hint", Value: "nomultithread", HasValue: true}, {Name: "contiguous"}},
			}
			r.Dependency = "afterok:7:8,afterany:9"
		})},
		"licenses and dependencies are the whole job's": {"parts", sbatchRequest(func(r *Request) {
			r.Groups = append(r.Groups, TaskGroup{Tasks: 1, Resources: Resources{CPUs: 1, GPUs: 1, Gres: "gpu:1g.10gb:1"}})
			r.Wishes = Wishes{Licenses: "ansys:2", Nice: 1, Switches: Switches{Count: 2}}
			r.Dependency = "after:7"
		})},
		"a percent sign in the directory is no pattern": {"percent", sbatchRequest(func(r *Request) {
			r.Dir = "/spool/100%j/pi-1"
		})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args, err := SbatchArgs(tt.request, sbatchScript)
			require.NoError(t, err)
			got := strings.Join(args, "\n") + "\n"
			golden.Equal(t, filepath.Join("testdata", "sbatch-"+tt.file+".golden"), got)
		})
	}
}

func TestSbatchArgsRefusesWhatSbatchCannotTake(t *testing.T) {
	tests := map[string]struct {
		change func(*Request)
		want   string
	}{
		"a line break in the account":       {func(r *Request) { r.Account = "a\n#SBATCH -N9" }, `the account "a\n#SBATCH -N9" has a control character`},
		"a zero byte in the comment":        {func(r *Request) { r.Comment = "x\x00" }, "the comment"},
		"a separator of lists in the name":  {func(r *Request) { r.Name = "x\x1f" }, "the name"},
		"an agent found by the search path": {func(r *Request) { r.Agent = "gangline-agent" }, "not absolute"},
		"a relative directory":              {func(r *Request) { r.Dir = "spool" }, "not absolute"},
		"a backslash in the directory":      {func(r *Request) { r.Dir = `/spool/a\b` }, "backslash"},
		"no name":                           {func(r *Request) { r.Name = "" }, "no name"},
		"no group":                          {func(r *Request) { r.Groups = nil }, "no task"},
		"a group without tasks":             {func(r *Request) { r.Groups[0].Tasks = 0 }, "group 0 asks for 0 tasks"},
		"a task without CPUs":               {func(r *Request) { r.Groups[0].CPUs = 0 }, "of 0 CPUs"},
		"a number of nodes for unequal pods": {func(r *Request) {
			r.MaxNodes, r.Groups = 2, append(r.Groups, TaskGroup{Tasks: 1, Resources: Resources{CPUs: 1}})
		}, "pods of unequal size"},
		"more nodes than pods":         {func(r *Request) { r.MinNodes = 5 }, "the gang has only 4 pods"},
		"a line break in the licenses": {func(r *Request) { r.Licenses = "a\nb" }, "the licenses"},
		"negative memory":              {func(r *Request) { r.Groups[0].MemoryMiB = -1 }, "-1 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := SbatchArgs(sbatchRequest(tt.change), sbatchScript)
			assert.ErrorContains(t, err, tt.want)
		})
	}
	_, err := SbatchArgs(sbatchRequest(), "launch.sh")
	assert.ErrorContains(t, err, "the batch script's path")
}

func TestNodeRange(t *testing.T) {
	for want, w := range map[string]Wishes{"": {}, "2-4": {MinNodes: 2}, "1-3": {MaxNodes: 3}, "2-3": {MinNodes: 2, MaxNodes: 3}} {
		assert.Equal(t, want, sbatchRequest(func(r *Request) { r.Wishes = w }).NodeRange())
	}
}

func TestNewRequestGivesGPUsTheirType(t *testing.T) {
	g := Gang{Owner: "JobSet ns/pi", OwnerUID: "u", Slots: []Slot{
		{Resources: Resources{CPUs: 1, GPUs: 2}}, {Resources: Resources{CPUs: 1, GPUs: 2, Gres: "gpu:a100:2"}}, {Resources: Resources{CPUs: 1}},
	}}
	r := NewRequest("n", g, Wishes{GPUType: "h100", Comment: "third run"}, "/a", "/d")
	var types []string
	for _, group := range r.Groups {
		types = append(types, group.GPUsPerTask())
	}
	assert.Equal(t, []string{"h100:2", "a100:2", ""}, types)
	assert.Equal(t, "gangline: JobSet ns/pi uid u: third run", r.Comment)
}
