package flux_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux"
)

// The examples are RFC 19's and a real instance's.
func TestJobIDs(t *testing.T) {
	for text, id := range map[string]flux.JobID{
		"ƒGfoQkP": 10284433408, "fGfoQkP": 10284433408, "10284433408": 10284433408, "0x265000000": 10284433408,
		"0000.0002.6500.0000": 10284433408, "ƒ1": 0, "ƒuZZybuNNy": 6731191091817518, "ƒjpXCZedGfVQ": 1<<64 - 1,
	} {
		got, err := flux.ParseJobID(text)
		require.NoError(t, err, text)
		assert.Equal(t, id, got, text)
		for _, form := range []string{id.String(), id.Plain()} {
			again, err := flux.ParseJobID(form)
			require.NoError(t, err)
			assert.Equal(t, id, again)
		}
	}
	assert.Equal(t, "ƒGfoQkP", flux.JobID(10284433408).String())
	assert.Equal(t, "fGfoQkP", flux.JobID(10284433408).Plain())
	for _, text := range []string{"", "ƒ", "f0", "ƒO", "job", "-1", "ƒjpXCZedGfVR", "ƒzzzzzzzzzzzzz", "0x"} {
		_, err := flux.ParseJobID(text)
		assert.Error(t, err, text)
	}
}

func TestSetsOfIDs(t *testing.T) {
	for text, ids := range map[string][]int{"": nil, "[]": nil, "0": {0}, "0-2,7": {0, 1, 2, 7}, "[3-4]": {3, 4}} {
		got, err := flux.ParseIDs(text)
		require.NoError(t, err, text)
		assert.Equal(t, ids, got, text)
	}
	for _, text := range []string{"a", "2-1", "1-", "0-99999999999", "0-2147483647"} {
		_, err := flux.ParseIDs(text)
		assert.Error(t, err, text)
	}
}

func TestResourceSets(t *testing.T) {
	var s flux.ResourceSet
	require.NoError(t, json.Unmarshal([]byte(`{"version":1,"execution":{"R_lite":[{"rank":"0,2","children":{"core":"0-1","gpu":"0"}},
		{"rank":"1","children":{"core":"0"}}],"nodelist":["n[0,2]","n1"],"properties":{"big":"2"}}}`), &s))
	assert.Equal(t, flux.ResourceSet{Nodes: []flux.Node{
		{Rank: 0, Host: "n0", Cores: []int{0, 1}, GPUs: []int{0}},
		{Rank: 2, Host: "n2", Cores: []int{0, 1}, GPUs: []int{0}, Properties: []string{"big"}},
		{Rank: 1, Host: "n1", Cores: []int{0}},
	}}, s)
	require.NoError(t, json.Unmarshal([]byte(`{"version":1,"execution":{"R_lite":[],"nodelist":[""]}}`), &s))
	assert.Empty(t, s.Nodes)
	for _, text := range []string{`{"version":2}`, `{"version":1,"execution":{"R_lite":[{"rank":"0"}],"nodelist":["a,b"]}}`} {
		assert.Error(t, json.Unmarshal([]byte(text), &s), text)
	}
}

func ExampleNewJobspec() {
	spec := flux.NewJobspec(flux.Slots{Count: 4, Nodes: 2, Cores: 1, GPUs: 1}, "hostname")
	spec.SetName("names")
	spec.Attributes.System.Environment["PATH"] = "/usr/bin:/bin"
	fmt.Println(spec)
	// Output: {"version":1,"resources":[{"type":"node","count":2,"with":[{"type":"slot","count":2,"label":"task","with":[{"type":"core","count":1},{"type":"gpu","count":1}]}]}],"tasks":[{"command":["hostname"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0,"environment":{"PATH":"/usr/bin:/bin"},"job":{"name":"names"}}}}
}

func ExampleAnd() {
	text, _ := json.Marshal(flux.And(flux.Users(1000), flux.InStates(flux.StatesPending), flux.Not(flux.Queues("debug"))))
	fmt.Println(string(text))
	// Output: {"and":[{"userid":[1000]},{"states":[14]},{"not":[{"queue":["debug"]}]}]}
}
