package provider

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/identity"
)

func TestReload(t *testing.T) {
	rule := func(user string) identity.Map {
		return identity.Map{{Identity: identity.Identity{User: user}}}
	}
	tests := map[string]struct {
		read   Config
		err    error
		events []string
		looked bool
		want   identity.Map
	}{
		"nothing new": {read: Config{Identity: rule("ann")}, want: rule("ann")},
		"a new map": {
			read: Config{Identity: rule("bob")}, want: rule("bob"), looked: true,
			events: []string{"Normal ConfigReloaded The map of identities was read anew: 1 rule"},
		},
		"a file that cannot be used changes nothing": {
			err: errors.New("line 3: no"), want: rule("ann"),
			events: []string{"Warning ConfigInvalid The earlier configuration stays in force: line 3: no"},
		},
		"other settings wait for a restart, the map does not": {
			read: Config{Identity: rule("bob"), QueueFactor: 3, Agent: "/opt/a"}, want: rule("bob"), looked: true,
			events: []string{
				"Warning RestartNeeded Restart gangline-node for what has changed of agent, queueFactor",
				"Normal ConfigReloaded The map of identities was read anew: 1 rule",
			},
		},
		"the one who asks cannot change": {
			read: Config{Identity: rule("bob"), Access: AccessConfig{Asker: "eve"}}, want: rule("ann"),
			events: []string{`Warning ConfigInvalid The earlier configuration stays in force: the user who asks the workload manager would change from "" to "eve": set access.asker, or restart gangline-node`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var events []string
			looked := false
			r := reloader{
				load:    func() (Config, error) { return test.read, test.err },
				started: Config{Identity: rule("ann")}, ids: newIdentities(rule("ann")),
				changed: func() { looked = true },
				tell: func(eventType, reason, message string) {
					events = append(events, eventType+" "+reason+" "+message)
				},
			}
			r.look(t.Context())
			r.look(t.Context()) // says nothing twice
			assert.Equal(t, test.events, events)
			assert.Equal(t, test.looked, looked)
			assert.Equal(t, test.want, r.ids.get())
		})
	}
}
