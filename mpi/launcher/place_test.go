package launcher_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi/launcher"
)

// gang is four pods of two slots on two nodes, and a launcher that takes none.
func gang() launcher.Gang {
	g := launcher.Gang{Own: 4}
	for k := range 4 {
		g.Pods = append(g.Pods, launcher.Pod{
			Slot: k, Names: []string{fmt.Sprintf("pi-%d", k), fmt.Sprintf("pi-%d.pi", k)}, Address: fmt.Sprintf("10.0.0.%d", k/2),
			Group: "node", MPISlots: 2, Node: fmt.Sprintf("n%d", k/2),
		})
	}
	g.Pods = append(g.Pods, launcher.Pod{Slot: 4, Names: []string{"pi-launcher"}, Address: "10.0.0.9", Group: "launcher", Node: "n0"})
	return g
}

// mixed is the same with the last two nodes in another component.
func mixed() launcher.Gang {
	g := gang()
	g.Pods[2].Component, g.Pods[3].Component = 1, 1
	return g
}

func lay(t *testing.T, g launcher.Gang, line string, hostfile ...launcher.Host) ([]launcher.Rank, error) {
	t.Helper()
	r, err := launcher.Parse(words(line), false)
	require.NoError(t, err)
	return launcher.Lay(r, func(i int) []launcher.Place {
		places, foreign := g.Default(hostfile)
		if len(r.Programs[i].Hosts) > 0 {
			places, foreign = g.Places(r.Programs[i].Hosts)
		}
		assert.Empty(t, foreign)
		return places
	})
}

func TestLay(t *testing.T) {
	for name, tc := range map[string]struct {
		line     string
		hostfile []launcher.Host
		want     []int // slots, program*10 added
	}{
		"every slot gets a rank":                             {"a", nil, []int{0, 0, 1, 1, 2, 2, 3, 3}},
		"fewer ranks fill the first pods":                    {"-n 3 a", nil, []int{0, 0, 1}},
		"by node, one after the other":                       {"-n 6 --map-by node a", nil, []int{0, 1, 2, 3, 0, 1}},
		"so many per pod":                                    {"-ppn 1 a", nil, []int{0, 1, 2, 3}},
		"so many per pod, and in all":                        {"-N 3 -n 7 a", nil, []int{0, 0, 0, 1, 1, 1, 2}},
		"the hostfile's order and slots":                     {"a", []launcher.Host{{"pi-3.pi", 1}, {"pi-0", 0}}, []int{3, 0, 0}},
		"hosts by name":                                      {"--host pi-2:2,pi-1 a", nil, []int{2, 2, 1}},
		"the launcher's own pod":                             {"-n 2 --host localhost:2 a", nil, []int{4, 4}},
		"an address that one pod has alone":                  {"--host 10.0.0.9 a", nil, []int{4}},
		"more than there are slots, if that is asked for":    {"-n 12 --oversubscribe a", nil, []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}},
		"what cannot be spread evenly goes to the first":     {"-n 7 --oversubscribe --host pi-0:2,pi-1:2 a", nil, []int{0, 0, 0, 0, 1, 1, 1}},
		"more than there are slots, by node":                 {"-n 6 --oversubscribe --map-by node --host pi-0:1,pi-1:3 a", nil, []int{0, 1, 0, 1, 1, 1}},
		"a second program goes on where the first ends":      {"-n 3 a : -n 2 b", nil, []int{0, 0, 1, 11, 12}},
		"a second program on hosts of its own":               {"-n 1 --host pi-3 a : -n 2 --host pi-0:2 b", nil, []int{3, 10, 10}},
		"a second program with no slot left, oversubscribed": {"-n 8 --oversubscribe a : -n 1 b", nil, []int{0, 0, 1, 1, 2, 2, 3, 3, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			ranks, err := lay(t, gang(), tc.line, tc.hostfile...)
			require.NoError(t, err)
			var got []int
			for _, r := range ranks {
				got = append(got, r.Program*10+r.Pod.Slot)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestLayRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		gang       launcher.Gang
		line, says string
	}{
		"more ranks than slots":           {gang(), "-n 9 a", "9 ranks of a do not fit on the 8 free slots of pi-0, pi-1, pi-2, pi-3; ask for fewer"},
		"more ranks than so many per pod": {gang(), "-n 9 -N 2 --oversubscribe a", "9 ranks of a do not fit on the 8 free slots"},
		"a gang without slots":            {launcher.Gang{Pods: gang().Pods[4:]}, "a", "there is no slot for a"},
		"an order that the numbers of a heterogeneous job's ranks do not have": {mixed(), "--map-by node a", "have different resources"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lay(t, tc.gang, tc.line)
			assert.ErrorContains(t, err, tc.says)
		})
	}
}

func TestARanksOfAHeterogeneousJobFollowItsComponents(t *testing.T) {
	ranks, err := lay(t, mixed(), "a", launcher.Host{Name: "pi-3"}, launcher.Host{Name: "pi-0"})
	require.NoError(t, err)
	assert.Equal(t, []launcher.Run{{Slot: 0, Ranks: 2}, {Slot: 3, Ranks: 2}}, launcher.RunsOf(ranks))
}

func TestLeftOut(t *testing.T) {
	g := gang()
	places, _ := g.Places([]launcher.Host{{Name: "pi-0"}, {Name: "pi-2"}})
	var slots []int
	for _, p := range g.LeftOut(places) {
		slots = append(slots, p.Slot)
	}
	assert.Equal(t, []int{1, 3}, slots, "the launcher is of another job")
	places, _ = g.Places([]launcher.Host{{Name: "localhost"}})
	assert.Empty(t, g.LeftOut(places))
}

func TestForSharedNodes(t *testing.T) {
	for line, want := range map[string]int{"a": 1, "--host pi-0:2,pi-2:2 a": 0, "-n 2 a": 0} {
		ranks, err := lay(t, gang(), line)
		require.NoError(t, err)
		assert.Len(t, launcher.ForSharedNodes(ranks), want, line)
	}
}

func TestForeignHostsAreNamed(t *testing.T) {
	places, foreign := gang().Places([]launcher.Host{{Name: "elsewhere"}, {Name: "pi-1"}, {Name: "10.0.0.0"}})
	assert.Len(t, places, 1)
	assert.Equal(t, []string{"elsewhere", "10.0.0.0"}, foreign, "an address that two pods share is nobody's")
}
