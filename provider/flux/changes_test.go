package flux_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux/fluxtest"
	"github.com/gangline/gangline/provider/wlm"
)

// changed waits for a report, and takes it.
func changed(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(20 * time.Second):
		t.Fatalf("nothing was told of %s", what)
	}
}

// quiet takes what there is until nothing comes for a while.
func quiet(changes <-chan struct{}) {
	for {
		select {
		case <-changes:
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}

func TestChangesAreTold(t *testing.T) {
	lives := func(t *testing.T, c *instance) {
		changes := c.Changes(t.Context())
		quiet(changes)
		r := c.request(t, "told", tasks(1, 1, 0))
		id, err := c.Submit(t.Context(), r)
		require.NoError(t, err)
		_, err = c.List(t.Context()) // by which a guest knows what to watch
		require.NoError(t, err)
		changed(t, changes, "a new job")
		c.waitFor(t, id, wlm.PhaseRunning)
		waitForFile(t, r.Dir+"/ready.0")
		quiet(changes)
		c.end(t, r, "0")
		changed(t, changes, "the job's end")
		c.waitFor(t, id, wlm.PhaseEnded)
	}
	everywhere(t, lives)
	t.Run("a guest", func(t *testing.T) {
		lives(t, startWith(t, func(cfg *fluxtest.Config) { cfg.Guest = true }))
	})
}

func TestChangesAfterAnOutage(t *testing.T) {
	c := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := c.Changes(ctx)
	quiet(changes)
	c.broker.Crash()
	changed(t, changes, "the broker's end")
	_, err := c.List(ctx)
	require.Error(t, err)
	require.NoError(t, c.broker.Resume())
	require.Eventually(t, func() bool { return c.broker.Requests("job-manager.events-journal") == 2 }, 20*time.Second, 10*time.Millisecond)
	quiet(changes)
	_, err = c.Submit(ctx, c.request(t, "later", tasks(1, 1, 0)))
	require.NoError(t, err)
	changed(t, changes, "a job after the outage")
}

func TestAFailedAgentEndsItsGang(t *testing.T) {
	everywhere(t, func(t *testing.T, c *instance) {
		r := c.request(t, "crash", tasks(2, 1, 0))
		// The first agent fails, the other waits.
		script := "#!/bin/sh\ntest $FLUX_TASK_RANK != 0 || exit 7\nexec sleep 600\n"
		r.Agent += ".crash"
		require.NoError(t, os.WriteFile(r.Agent, []byte(script), 0o700))
		id, err := c.Submit(t.Context(), r)
		require.NoError(t, err)
		job := c.waitFor(t, id, wlm.PhaseEnded)
		assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
		assert.Contains(t, job.Explanation, "exit-on-error")
	})
}
