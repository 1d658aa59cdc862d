package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			r := Reloader{
				load:    func() (Config, error) { return test.read, test.err },
				started: Config{Identity: rule("ann")}, ids: newIdentities(rule("ann")),
			}
			r.lead(t.Context(), followers{
				changed: func() { looked = true },
				tell: func(eventType, reason, message string) {
					events = append(events, eventType+" "+reason+" "+message)
				},
			})
			r.look(t.Context(), false) // says nothing twice
			assert.Equal(t, test.events, events)
			assert.Equal(t, test.looked, looked)
			assert.Equal(t, test.want, r.ids.get())
		})
	}
}

// A process that stands by has the map of now when it takes over, before any gang is looked
// at, and SIGHUP does not end it.
func TestWhoStandsByKeepsTheMap(t *testing.T) {
	rule := func(user string) identity.Map {
		return identity.Map{{Identity: identity.Identity{User: user}}}
	}
	var file atomic.Pointer[identity.Map]
	write := func(m identity.Map) { file.Store(&m) }
	write(rule("ann"))
	r, err := NewReloader(func() (Config, error) {
		if m := *file.Load(); m != nil {
			return Config{Identity: m}, nil
		}
		return Config{}, errors.New("line 3: no")
	})
	require.NoError(t, err)
	assert.Equal(t, rule("ann"), r.Config().Identity)

	var log bytes.Buffer
	ctx := logr.NewContext(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(&log, nil)))
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(running)
	}()
	write(rule("bob"))
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	require.Eventually(t, func() bool { return r.ids.get()[0].User == "bob" }, reloadEvery, time.Millisecond, "it is read while the process stands by")
	stop()
	<-ended

	write(nil)
	r.look(ctx, false)
	r.look(ctx, false)
	assert.Equal(t, rule("bob"), r.ids.get(), "a broken file changes nothing")
	assert.Equal(t, 1, strings.Count(log.String(), "line 3: no"), log.String())

	write(rule("eve"))
	var events []string
	led := followers{changed: func() {}, tell: func(_, reason, _ string) { events = append(events, reason) }}
	r.look(ctx, false) // as Run of the virtual nodes does before it prepares any
	assert.Equal(t, rule("eve"), r.ids.get())
	write(nil)
	r.look(ctx, false)
	r.lead(ctx, led)
	assert.Equal(t, []string{reasonInvalidConfig}, events, "who begins to lead tells what is wrong with the file")
}
