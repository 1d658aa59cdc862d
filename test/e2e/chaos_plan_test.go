package e2e

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// order is one thing that a storm does, as its seed decides it before anything has
// happened. What it is done to is chosen by Pick among what is there when the time comes.
type order struct {
	At   time.Duration
	Lane string
	Kind string
	Pick uint64
	For  time.Duration
}

// lane is a saboteur, or a crowd of users, who does one thing after another.
type lane struct {
	name        string
	least, most time.Duration // between one and the next
	choices     []choice
	// count bounds how many orders there are; 0 for as many as the time allows.
	count int
}

// choice is a kind of deed, how often it is chosen among the others, and how long it lasts.
type choice struct {
	kind        string
	weight      int
	least, most time.Duration
}

// plan is what a seed decides: the same for the same lanes and duration, and each lane's own
// whatever the others are.
func plan(seed uint64, duration time.Duration, lanes []lane) (orders []order) {
	for _, l := range lanes {
		dice := rand.New(rand.NewPCG(seed, hash(l.name)))
		total := 0
		for _, c := range l.choices {
			total += c.weight
		}
		at := time.Duration(0)
		for n := 0; l.count == 0 || n < l.count; n++ {
			if at += between(dice, l.least, l.most); l.count == 0 && at >= duration {
				break
			}
			rest := dice.IntN(total)
			i := slices.IndexFunc(l.choices, func(c choice) bool { rest -= c.weight; return rest < 0 })
			c := l.choices[i]
			orders = append(orders, order{At: at, Lane: l.name, Kind: c.kind, Pick: dice.Uint64(), For: between(dice, c.least, c.most)})
		}
	}
	slices.SortStableFunc(orders, func(a, b order) int { return int(a.At - b.At) })
	return orders
}

func between(dice *rand.Rand, least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(dice.Int64N(int64(most-least)))
}

// hash is FNV-1a: a lane's dice are its own.
func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// pick chooses one of a list, which is sorted first: the order in which things are listed
// is no decision.
func pick[T any](list []T, by func(T) string, o order) (chosen T, ok bool) {
	if len(list) == 0 {
		return chosen, false
	}
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(by(a), by(b)) })
	return list[o.Pick%uint64(len(list))], true
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// chaosLanes are those of a whole storm. kills, if any, is how often gangline-node is
// killed, as fast as it can be started.
func chaosLanes(kills int, overSSH bool) []lane {
	node := lane{name: "node", least: ms(1000), most: ms(8000), choices: []choice{
		{"killNode", 5, 0, ms(3000)}, {"freezeNode", 1, ms(500), ms(5000)},
	}}
	users := lane{name: "users", least: ms(250), most: ms(1300), choices: []choice{
		{"createJob", 5, 0, 0}, {"createJobSet", 7, 0, 0}, {"deleteOwner", 3, 0, 0}, {"deletePod", 2, 0, 0}, {"deleteNamespace", 1, 0, 0},
	}}
	if kills > 0 {
		// A node that hardly lives starts few gangs: users who asked for more, or deleted as much,
		// would see none of theirs run.
		users = lane{name: "users", least: ms(1000), most: ms(5000), choices: []choice{
			{"createJob", 20, 0, 0}, {"createJobSet", 24, 0, 0}, {"deleteOwner", 3, 0, 0}, {"deletePod", 3, 0, 0}, {"deleteNamespace", 1, 0, 0},
		}}
		node = lane{name: "node", least: ms(30), most: ms(1600), count: kills, choices: []choice{
			{"killNode", 12, 0, ms(100)}, {"killNode", 1, 0, ms(2000)}, {"sparedNode", 1, ms(1000), ms(4000)},
		}}
	}
	lanes := []lane{node, users,
		{name: "jobs", least: ms(2500), most: ms(9000), choices: []choice{{"killAgent", 2, 0, 0}, {"cancelJob", 1, 0, 0}}},
		{name: "slurm", least: ms(5000), most: ms(15000), choices: []choice{
			{"stopSlurmctld", 3, 0, ms(6000)}, {"killSlurmctld", 1, 0, ms(5000)}, {"killSlurmd", 2, 0, 0}, {"crashNode", 1, ms(12000), ms(25000)},
		}},
		{name: "cluster", least: ms(5000), most: ms(15000), choices: []choice{
			{"killAPI", 2, 0, 0}, {"freezeAPI", 2, ms(1000), ms(8000)}, {"killEtcd", 1, 0, 0}, {"freezeEtcd", 1, ms(1000), ms(6000)}, {"deleteNode", 2, 0, 0},
		}},
		{name: "spool", least: ms(5000), most: ms(15000), choices: []choice{{"fillSpool", 1, ms(1000), ms(7000)}, {"freezeSpool", 1, ms(500), ms(4000)}}},
	}
	if overSSH {
		lanes = append(lanes, lane{name: "wire", least: ms(4000), most: ms(15000), choices: []choice{{"cutWire", 1, ms(500), ms(9000)}}},
			lane{name: "gateway", least: ms(3000), most: ms(15000), choices: []choice{{"killGateway", 1, 0, 0}}})
	}
	return lanes
}

// breezeLanes are those of the short form, which shares its control plane with other tests.
func breezeLanes() []lane {
	return []lane{
		{name: "users", least: ms(150), most: ms(500), choices: []choice{
			{"createJob", 3, 0, 0}, {"createJobSet", 4, 0, 0}, {"deleteOwner", 1, 0, 0}, {"deletePod", 1, 0, 0}, {"deleteNamespace", 1, 0, 0},
		}},
		{name: "node", least: ms(300), most: ms(1500), choices: []choice{{"killNode", 1, 0, ms(300)}}},
		{name: "jobs", least: ms(1500), most: ms(3000), choices: []choice{{"killAgent", 1, 0, 0}, {"cancelJob", 1, 0, 0}}},
		{name: "slurm", least: ms(2000), most: ms(3000), choices: []choice{{"stopSlurmctld", 1, 0, ms(1000)}, {"killSlurmd", 1, 0, 0}}},
		{name: "spool", least: ms(1000), most: ms(3000), choices: []choice{{"fillSpool", 1, ms(300), ms(1500)}}},
		{name: "cluster", least: ms(2000), most: ms(4000), choices: []choice{{"deleteNode", 1, 0, 0}}},
	}
}

func TestPlan(t *testing.T) {
	all := plan(7, time.Minute, chaosLanes(0, true))
	assert.Equal(t, all, plan(7, time.Minute, chaosLanes(0, true)), "a seed decides the same again")
	assert.NotEqual(t, all, plan(8, time.Minute, chaosLanes(0, true)))
	kinds := map[string]int{}
	for i, o := range all {
		kinds[o.Kind]++
		assert.Less(t, o.At, time.Minute)
		assert.True(t, i == 0 || all[i-1].At <= o.At, "in the order of time")
	}
	far := plan(7, 20*time.Minute, chaosLanes(0, true))
	for _, o := range far {
		kinds[o.Kind]++
		assert.Contains(t, deeds(), o.Kind)
	}
	for kind := range deeds() {
		assert.True(t, kinds[kind] > 0 || kind == "sparedNode", "no storm has %s", kind)
	}
	of := func(orders []order, lane string) []order {
		return slices.DeleteFunc(slices.Clone(orders), func(o order) bool { return o.Lane != lane })
	}
	assert.Equal(t, of(all, "slurm"), of(plan(7, time.Minute, chaosLanes(100, false)), "slurm"), "a lane's dice are its own")
	assert.Len(t, of(plan(7, time.Minute, chaosLanes(100, false)), "node"), 100)
}

func TestDisasters(t *testing.T) {
	for line, want := range map[string]int{
		`level=INFO msg=submitted`:                             0,
		`panic: assignment to nil map`:                         1,
		`WARNING: DATA RACE`:                                   1,
		`fatal error: concurrent map read`:                     1,
		`err="Pod \"p\" is invalid: status.message: Required"`: 1,
		`err="Pod \"p\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers"`: 0,
	} {
		assert.Len(t, disasters("one\n"+line+"\ntwo"), want, line)
	}
}
