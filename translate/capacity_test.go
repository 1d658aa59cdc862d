package translate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/translate"
)

func TestNeverFits(t *testing.T) {
	node := translate.Resources{CPUs: 8, MemoryMiB: 1024, GPUs: 4}
	group := func(tasks, cpus int, mib int64, gpus int) translate.TaskGroup {
		return translate.TaskGroup{Tasks: tasks, Resources: translate.Resources{CPUs: cpus, MemoryMiB: mib, GPUs: gpus}}
	}
	cases := map[string]struct {
		groups []translate.TaskGroup
		nodes  int
		share  bool
		says   string // "" for a gang that fits
	}{
		"what fits exactly":                            {[]translate.TaskGroup{group(4, 4, 512, 2)}, 2, false, ""},
		"one too many for the CPUs":                    {[]translate.TaskGroup{group(5, 4, 0, 0)}, 2, false, "room for 5 pods with 4 CPUs"},
		"one too many for the memory":                  {[]translate.TaskGroup{group(3, 1, 1024, 0)}, 2, false, "has room for 2"},
		"one too many for the GPUs":                    {[]translate.TaskGroup{group(3, 1, 0, 3)}, 2, false, "has room for 2"},
		"more shapes than nodes":                       {[]translate.TaskGroup{group(1, 1, 0, 0), group(1, 2, 0, 0)}, 1, false, "2 runs"},
		"more shapes than nodes where they share them": {[]translate.TaskGroup{group(1, 1, 0, 0), group(1, 2, 0, 0)}, 1, true, ""},
		"nothing is known of the nodes":                {[]translate.TaskGroup{group(100, 100, 0, 0)}, 0, false, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			nodes := make([]translate.Resources, c.nodes)
			for i := range nodes {
				nodes[i] = node
			}
			got := translate.NeverFits(c.groups, nodes, c.share)
			if c.says == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, c.says)
		})
	}
}
