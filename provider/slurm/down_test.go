package slurm_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	devslurm "github.com/gangline/gangline/test/slurm"
)

// testNoREST stops slurmrestd for a while.
func testNoREST(t *testing.T, dev *devslurm.Cluster, c *cluster) {
	survives := c.survivor(t)
	require.NoError(t, dev.StopREST(t.Context()))
	jobs, err := c.List(t.Context())
	assert.Nil(t, jobs)
	assert.ErrorContains(t, err, "asking slurmrestd at unix:")
	_, err = c.Submit(t.Context(), c.request(t, "no-rest", tasks(1, 1, 0, 0)))
	var rejected *wlm.RejectedError
	assert.Error(t, err)
	assert.NotErrorAs(t, err, &rejected)
	assert.Error(t, c.Cancel(t.Context(), "", "1"))
	require.NoError(t, dev.StartREST(t.Context()))
	survives(t)
}

// survivor starts a job and returns a test that it is still there, whatever was down
// in the meantime, and ends.
func (c *cluster) survivor(t *testing.T) func(t *testing.T) {
	name := fmt.Sprintf("survivor-%d", time.Now().UnixNano())
	r := c.request(t, name, tasks(1, 1, 0, 0))
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	read(t, r, "ready")
	return func(t *testing.T) {
		// Whatever the controller says while it comes up: never an empty list.
		jobs, err := c.List(t.Context())
		if err == nil {
			assert.NotEmpty(t, jobs)
		}
		require.Eventually(t, func() bool { _, err := c.List(t.Context()); return err == nil }, time.Minute, 100*time.Millisecond)
		assert.Equal(t, wlm.PhaseRunning, c.job(t, id).Phase)
		assert.Equal(t, wlm.OutcomeCompleted, c.end(t, r, id).Outcome)
	}
}

func (c *cluster) isDown(t *testing.T, err error) {
	if assert.Error(t, err) {
		assert.Regexp(t, c.down, err.Error())
	}
}

func (c *cluster) testNoController(t *testing.T) {
	var queries sync.WaitGroup
	queries.Go(func() {
		jobs, err := c.List(t.Context())
		assert.Nil(t, jobs)
		c.isDown(t, err)
	})
	queries.Go(func() {
		_, err := c.Inventory(t.Context())
		c.isDown(t, err)
	})
	queries.Go(func() { c.isDown(t, c.Cancel(t.Context(), "", "1")) })
	unanswered := c.request(t, "unanswered", tasks(1, 1, 0, 0))
	queries.Go(func() {
		_, err := c.Submit(t.Context(), unanswered)
		c.isDown(t, err)
		var rejected *wlm.RejectedError
		assert.NotErrorAs(t, err, &rejected)
	})
	queries.Wait()
}

// testLockOutlives is about a provider that dies while sbatch waits: its successor gets
// the lock when sbatch has given up, not before.
func testLockOutlives(t *testing.T, tm team) {
	config := tm.access[sites.Setuid]
	config.Lock += "-of-one-that-dies"
	m, end := tm.overCLI(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := m.Submit(ctx, tm.of(0, "dies", m).request(t, "orphan", tasks(1, 1, 0, 0)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, end())
	path := strings.ReplaceAll(config.Lock, "{user}", tm.users[0].Name)
	_, err = spool.Lock(ctx, path, nil)
	assert.ErrorContains(t, err, "still runs")
	next, err := spool.Lock(t.Context(), path, nil)
	require.NoError(t, err)
	require.NoError(t, next.Close())
}
