package local

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/translate"
)

func group(n, cpus int, memory int64, gpus int) translate.TaskGroup {
	return translate.TaskGroup{Tasks: n, Resources: translate.Resources{CPUs: cpus, MemoryMiB: memory, GPUs: gpus}}
}

func TestPlace(t *testing.T) {
	nodes := []NodeSpec{
		{Name: "a", CPUs: 4, MemoryMiB: 1000, GPUs: 2}, {Name: "b", CPUs: 4, MemoryMiB: 1000, GPUs: 2},
		{Name: "c", CPUs: 8, MemoryMiB: 2000},
	}
	exclusive := func(groups ...translate.TaskGroup) translate.Request {
		return translate.Request{Groups: groups, Wishes: translate.Wishes{Exclusive: true}}
	}
	shared := func(groups ...translate.TaskGroup) translate.Request { return translate.Request{Groups: groups} }
	tests := map[string]struct {
		used    map[string]usage
		request translate.Request
		want    string // empty if it does not fit
	}{
		"tasks fill one node after the other":      {nil, shared(group(6, 2, 0, 0)), "a a b b c c"},
		"memory can be what fills a node":          {nil, shared(group(3, 1, 600, 0)), "a b c"},
		"no memory asked for is none counted":      {nil, shared(group(4, 1, 0, 0)), "a a a a"},
		"each task gets GPUs of its own":           {nil, shared(group(3, 1, 0, 1)), "a[0] a[1] b[0]"},
		"a task's GPUs are on one node":            {nil, shared(group(2, 1, 0, 2)), "a[0 1] b[0 1]"},
		"GPUs in use are passed over":              {map[string]usage{"a": {tasks: 1, cpus: 1, gpus: map[int]bool{0: true}}}, shared(group(2, 1, 0, 1)), "a[1] b[0]"},
		"a smaller group goes into what is left":   {nil, shared(group(2, 3, 0, 0), group(1, 1, 0, 0)), "a b a"},
		"all tasks or none":                        {nil, shared(group(9, 2, 0, 0)), ""},
		"no node is large enough":                  {nil, shared(group(1, 9, 0, 0)), ""},
		"GPUs are not summed over nodes":           {nil, shared(group(1, 1, 0, 3)), ""},
		"what others use is not free":              {map[string]usage{"c": {tasks: 1, cpus: 5}}, shared(group(4, 4, 0, 0)), ""},
		"an exclusive job shares with nobody":      {map[string]usage{"a": {tasks: 1, cpus: 1}}, exclusive(group(2, 1, 0, 0)), "b b"},
		"its own tasks share the node":             {nil, exclusive(group(2, 1, 0, 1)), "a[0] a[1]"},
		"nobody shares with an exclusive job":      {map[string]usage{"a": {tasks: 1, cpus: 1, exclusive: true}}, shared(group(1, 1, 0, 0)), "b"},
		"an exclusive job waits for an empty node": {map[string]usage{"a": {tasks: 1}, "b": {tasks: 1}, "c": {tasks: 1}}, exclusive(group(1, 1, 0, 0)), ""},
		"those that ask for more are placed first": {nil, shared(group(1, 4, 0, 0), group(2, 2, 0, 2)), "c a[0 1] b[0 1]"},
		"unequal groups":                           {nil, shared(group(1, 2, 100, 0), group(2, 2, 500, 2)), "a a[0 1] b[0 1]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			places, ok := place(nodes, tt.used, tt.request)
			var got []string
			for _, p := range places {
				text := p.Node
				if len(p.GPUs) > 0 {
					text += fmt.Sprint(p.GPUs)
				}
				got = append(got, text)
			}
			assert.Equal(t, tt.want, strings.Join(got, " "))
			assert.Equal(t, tt.want != "", ok)
		})
	}
}
