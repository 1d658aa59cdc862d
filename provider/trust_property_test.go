package provider

import (
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// An HPC user owns the directories of the user's own gangs, and writes in them what he
// likes. These are what the node believes of that.

// usersAllocation is an allocation of ada's as the node has made it, and how it reads it
// again.
func usersAllocation(t *testing.T) (a *allocation, load func() (*allocation, error)) {
	t.Helper()
	keys := keySource{secret: []byte(strings.Repeat("k", 32))}
	names := translate.Names{Cluster: "c", Node: "hpc"}
	u := &hpcUser{name: "ada", site: site.Local{}, root: spool.Root(t.TempDir())}
	g := translate.Gang{Key: "pod/u", Namespace: "ml", Owner: "Pod ml/p", OwnerName: "p", OwnerUID: "u", Slots: []translate.Slot{{Hosts: []string{"p"}}}}
	a, err := newAllocation(t.Context(), u, keys.seal, names, g, 1, false, "")
	require.NoError(t, err)
	return a, func() (*allocation, error) {
		return loadAllocation(t.Context(), u, a.name(), keys.seal, names, time.Now())
	}
}

func TestAForgedAllocationIsNotTakenOver(t *testing.T) {
	a, load := usersAllocation(t)
	honest, err := load()
	require.NoError(t, err)
	assert.Equal(t, a.gang.Key, honest.gang.Key)
	for sentence, change := range map[string]func(*spool.Gang){
		"another gang's key":       func(g *spool.Gang) { g.Key = "pod/victim" },
		"another namespace":        func(g *spool.Gang) { g.Namespace = "victim" },
		"another user":             func(g *spool.Gang) { g.User = "bob" },
		"another owner":            func(g *spool.Gang) { g.OwnerUID = "victim" },
		"another generation":       func(g *spool.Gang) { g.Generation = 9 },
		"another allocation":       func(g *spool.Gang) { g.Allocation = "victim-1" },
		"no seal":                  func(g *spool.Gang) { g.Seal = "" },
		"a seal of its own making": func(g *spool.Gang) { g.Seal = strings.Repeat("0", len(g.Seal)) },
	} {
		g := a.gang
		change(&g)
		require.NoError(t, spool.Write(a.dir.Gang(), g))
		_, err := load()
		assert.ErrorIs(t, err, errForged, sentence)
	}
}

// Orders may be large, and a user may make those of each slot as large as files may be: the
// node reads who has the slot, and keeps nothing else.
func TestOldOrdersTakeNoMemory(t *testing.T) {
	a, load := usersAllocation(t)
	require.NoError(t, spool.Write(a.dir.Desired(0), spool.Desired{PodUID: "u", Action: spool.ActionRun, Recipient: "age1", Orders: make([]byte, 8<<20)}))
	again, err := load()
	require.NoError(t, err)
	assert.Equal(t, []spool.Desired{{PodUID: "u", Action: spool.ActionRun, Recipient: "age1"}}, again.desired)
	assert.Equal(t, 0, again.pods["u"])
	require.NoError(t, os.WriteFile(a.dir.Desired(0), []byte(`{"podUID":"`+strings.Repeat("x", 1<<20)+`"}`), 0o600))
	_, err = load()
	assert.ErrorContains(t, err, "more than there can be")
}

// Whatever others call their jobs, the jobs of a gang are its user's.
func TestOthersJobsOfTheSameNameDoNotCount(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	users := []string{"ada", "bob", "root", "", "Ada", "ada ", "adab"}
	p := &people{}
	for range 500 {
		var jobs []wlm.Job
		own := 0
		for i := range random.Intn(10) {
			j := wlm.Job{ID: fmt.Sprint(i), Name: "pi-1", User: users[random.Intn(len(users))]}
			if j.User == "ada" {
				own++
			}
			jobs = append(jobs, j)
		}
		mine := p.ofUser(jobs, "ada")
		assert.Len(t, mine, own)
		for _, j := range mine {
			assert.Equal(t, "ada", j.User)
		}
	}
}
