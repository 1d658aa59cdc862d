package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/preflight"
	"github.com/gangline/gangline/provider/site/sites"
)

func TestWhoIsTried(t *testing.T) {
	rule := func(id identity.Identity) identity.Rule { return identity.Rule{Identity: id} }
	rules := identity.Map{
		rule(identity.Identity{User: "ada", Account: "physics"}),
		rule(identity.Identity{User: "ada", Accounts: []string{"physics", "maths"}}), // the same for pods that name none
		rule(identity.Identity{User: "bob", Partitions: []string{"gpu"}, QOS: "long"}),
		rule(identity.Identity{User: "u_{namespace}"}),
	}
	for sentence, tc := range map[string]struct {
		flags   preflightFlags
		want    []preflight.Who
		unknown int
	}{
		"each different one of the map": {preflightFlags{}, []preflight.Who{
			{User: "ada", Account: "physics", Partition: "batch"}, {User: "bob", Partition: "gpu", QOS: "long"},
		}, 1},
		"one user": {preflightFlags{users: []string{"bob"}}, []preflight.Who{{User: "bob", Partition: "gpu", QOS: "long"}}, 1},
		"one whose name depends on the namespace": {preflightFlags{users: []string{"u_team"}}, []preflight.Who{{User: "u_team", Partition: "batch"}}, 1},
		"another partition": {preflightFlags{partition: "debug", users: []string{"ada"}}, []preflight.Who{
			{User: "ada", Account: "physics", Partition: "debug"},
		}, 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := provider.Config{Partition: "batch", Identity: rules, Access: provider.AccessConfig{Config: sites.Config{Mode: sites.Setuid}}}
			who, unknown, err := whoIs(c, tc.flags)
			require.NoError(t, err)
			assert.Equal(t, tc.want, who)
			assert.Len(t, unknown, tc.unknown)
		})
	}
	who, _, err := whoIs(provider.Config{}, preflightFlags{})
	require.NoError(t, err)
	require.Len(t, who, 1)
	assert.NotEmpty(t, who[0].User, "the process's own")
}

func TestWantedPartitions(t *testing.T) {
	c := provider.Config{Partition: "batch", Partitions: []string{"high"}, Nodes: []provider.NodeEntry{{Name: "n", Partition: "gpu"}}, Identity: identity.Map{{Identity: identity.Identity{Partition: "debug"}}}}
	var names []string
	for _, w := range wanted(c, "asked") {
		names = append(names, w.Partition)
	}
	assert.Equal(t, []string{"asked", "batch", "high", "gpu", "debug"}, names)
}
