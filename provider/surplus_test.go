package provider

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// lossy is a site to which the way is cut at its first calls: before or after they have
// done what was asked for.
type lossy struct {
	site.Local
	done []bool
}

func (l *lossy) CreateAllocation(ctx context.Context, root spool.Root, g spool.Gang) error {
	if len(l.done) == 0 {
		return l.Local.CreateAllocation(ctx, root, g)
	}
	done := l.done[0]
	l.done = l.done[1:]
	if done {
		if err := l.Local.CreateAllocation(ctx, root, g); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: broken pipe", site.ErrUnreachable)
}

// loner is a node that knows no allocation and acts for several users.
func loner(m wlm.Manager) *Reconciler {
	return &Reconciler{
		manager: m, registry: newRegistry(translate.Names{Cluster: "c", Node: "n"}), people: &people{},
		jobs: &jobTable{byName: map[string][]wlm.Job{}},
	}
}

func TestADirectoryWhoseAnswerWasLostIsTaken(t *testing.T) {
	c := newScene(t)
	u := testUser(t.TempDir())
	u.site = &lossy{done: []bool{false, true}}
	r := loner(nil)
	c.s.user = u
	for range 2 {
		require.ErrorIs(t, r.allocate(t.Context(), c.s), site.ErrUnreachable)
		assert.Nil(t, c.s.alloc)
	}
	require.NoError(t, r.allocate(t.Context(), c.s))
	made, err := os.ReadDir(u.root.Gangs())
	require.NoError(t, err)
	require.Len(t, made, 1, "each try has the same name")
	assert.Equal(t, made[0].Name(), c.s.alloc.name())
	assert.True(t, c.s.alloc.untouched)
	assert.Same(t, c.s.alloc, r.registry.latest(c.s.key))

	c.s.alloc.ended = &spool.Ended{}
	require.NoError(t, r.allocate(t.Context(), c.s))
	assert.NotEqual(t, made[0].Name(), c.s.alloc.name(), "the next allocation has a name of its own")
}

func TestADirectoryOfAnotherUsersIsNotTaken(t *testing.T) {
	c := newScene(t)
	first, second := testUser(t.TempDir()), testUser(t.TempDir())
	first.site, second.name = &lossy{done: []bool{true}}, "other"
	r := loner(nil)
	c.s.user = first
	require.Error(t, r.allocate(t.Context(), c.s))
	c.s.user = second // the map has changed
	require.NoError(t, r.allocate(t.Context(), c.s))
	assert.Equal(t, "other", c.s.alloc.gang.User)
	assert.FileExists(t, second.root.Dir(c.s.alloc.name()).Gang())
}

func TestWhichOfAGangsAllocationsCounts(t *testing.T) {
	made := func(name string, generation int) *allocation {
		return &allocation{gang: spool.Gang{Allocation: name, Generation: generation}}
	}
	with := func(a *allocation, change func(*allocation)) *allocation { change(a); return a }
	job := func(a *allocation) { a.job = &spool.Job{} }
	pods := func(a *allocation) { a.pods = map[types.UID]int{"u": 0} }
	over := func(a *allocation) { a.ended = &spool.Ended{} }
	for sentence, tc := range map[string]struct {
		all     []*allocation
		listed  string
		counts  string
		surplus []string
	}{
		"there is none":                       {},
		"the only one":                        {all: []*allocation{made("a", 1)}, counts: "a"},
		"the newest":                          {all: []*allocation{with(made("a", 1), over), made("b", 2)}, counts: "b"},
		"of two the one that ran":             {all: []*allocation{with(made("a", 1), pods), with(made("b", 1), job)}, counts: "a", surplus: []string{"b"}},
		"… whose job is known":                {all: []*allocation{with(made("a", 1), job), made("b", 1)}, listed: "b", counts: "a", surplus: []string{"b"}},
		"… whose job is listed":               {all: []*allocation{made("a", 1), made("b", 1)}, listed: "a", counts: "a", surplus: []string{"b"}},
		"… or always the same":                {all: []*allocation{made("b", 1), made("a", 1)}, counts: "b", surplus: []string{"a"}},
		"the one that counts may have ended":  {all: []*allocation{made("a", 1), with(with(made("b", 1), job), over)}, counts: "b", surplus: []string{"a"}},
		"an older one that was never ended":   {all: []*allocation{with(made("a", 1), job), made("b", 2)}, counts: "b", surplus: []string{"a"}},
		"what has ended beside it is nothing": {all: []*allocation{with(made("a", 1), over), with(made("b", 1), job)}, counts: "b"},
	} {
		t.Run(sentence, func(t *testing.T) {
			counts, surplus := choose(tc.all, func(a *allocation) bool { return a.name() == tc.listed })
			var names []string
			for _, a := range surplus {
				names = append(names, a.name())
			}
			assert.Equal(t, tc.surplus, names)
			if tc.counts == "" {
				assert.Nil(t, counts)
				return
			}
			assert.Equal(t, tc.counts, counts.name())
		})
	}
}

// twoAllocations are what a process finds in the spool whose predecessor was cut off while
// it made the first directory, made the second, and was killed when it had submitted a job
// for that.
func twoAllocations(t *testing.T) (r *Reconciler, m *cancelling, c *scene, first, second *allocation) {
	c, m = newScene(t), &cancelling{}
	r = loner(m)
	u := testUser(t.TempDir())
	names := r.registry.names
	for range 2 {
		_, err := newAllocation(t.Context(), u, keySource{}.seal, names, c.s.gang, 1, false, "")
		require.NoError(t, err)
	}
	require.NoError(t, r.registry.load(t.Context(), u, keySource{}.seal, func(types.UID, string) bool { return true }, testNow))
	all := r.registry.of(c.s.key)
	require.Len(t, all, 2)
	return r, m, c, all[0], all[1]
}

func TestTheAllocationWithAJobCountsAndTheOtherEnds(t *testing.T) {
	r, m, c, first, second := twoAllocations(t)
	look := func() { r.chooseAllocation(c.s) }
	r.jobs.at = testNow.Add(-time.Second) // a listing from before
	look()
	r.endSurplus(t.Context(), c.s)
	assert.True(t, first.live() && second.live(), "nobody knows yet")
	assert.Len(t, c.s.surplus, 1, "and nothing is submitted")

	for _, counts := range []*allocation{first, second} {
		r.jobs.byName = map[string][]wlm.Job{counts.name(): {{ID: "7", Name: counts.name(), User: "u", Phase: wlm.PhaseQueued}}}
		look()
		assert.Same(t, counts, c.s.alloc)
	}
	r.jobs.at = testNow.Add(time.Second)
	r.endSurplus(t.Context(), c.s)
	assert.True(t, first.live(), "it was chosen by the listing from before")
	look()
	r.endSurplus(t.Context(), c.s)
	assert.True(t, second.live())
	assert.False(t, first.live())
	assert.Empty(t, c.s.surplus)
	assert.FileExists(t, first.dir.Ended())
	assert.Empty(t, m.asked)
	look()
	assert.Empty(t, c.s.surplus)
}

func TestAJobOfASurplusAllocationIsCancelled(t *testing.T) {
	r, m, c, first, second := twoAllocations(t)
	first.job = &spool.Job{ID: "6"}
	r.jobs.at = testNow.Add(time.Second)
	list := func(phase wlm.Phase) {
		r.jobs.byName = map[string][]wlm.Job{
			first.name():  {{ID: "6", Name: first.name(), User: "u", Phase: wlm.PhaseRunning}},
			second.name(): {{ID: "7", Name: second.name(), User: "u", Phase: phase}, {ID: "9", Name: second.name(), User: "mallory", Phase: wlm.PhaseRunning}},
		}
		r.chooseAllocation(c.s)
		r.endSurplus(t.Context(), c.s)
	}
	list(wlm.PhaseRunning)
	assert.Equal(t, []string{"7"}, m.asked)
	assert.True(t, second.live(), "until its job has gone")
	list(wlm.PhaseEnding)
	assert.True(t, second.live())
	list(wlm.PhaseEnded)
	assert.False(t, second.live())
	assert.True(t, first.live())
}

func TestASurplusAllocationThatRanSomethingIsLeftAlone(t *testing.T) {
	r, _, c, first, second := twoAllocations(t)
	first.pods["a"], second.pods["b"] = 0, 0
	r.jobs.at = testNow.Add(time.Second)
	r.chooseAllocation(c.s)
	r.endSurplus(t.Context(), c.s)
	assert.True(t, first.live() && second.live())
}
