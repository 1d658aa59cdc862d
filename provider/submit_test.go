package provider

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// slow is a workload manager that takes a job when nobody waits for its answer any more.
type slow struct {
	wlm.Manager
	asked int
}

func (m *slow) Submit(ctx context.Context, _ translate.Request) (string, error) {
	m.asked++
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// installed are sites where the agent is in its place.
type installed struct{ Sites }

func (installed) Forget(string) {}

func (installed) Agent(_ context.Context, _, path string) (string, error) { return path, nil }

func TestASubmissionThatWasGivenUpMayBeUnderWay(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseQueued)
	job := c.s.job
	a.job, c.s.job = nil, nil
	c.worker(0)
	c.worker(1)
	m := &slow{}
	r := &Reconciler{
		manager: m, kind: "Slurm", recorder: record.NewFakeRecorder(10), registry: newRegistry(c.names()),
		people: &people{only: "u", sites: installed{}},
	}
	c.s.now = time.Now()
	c.decide()
	given, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.NoError(t, r.submit(given, c.s))
	require.Equal(t, 1, m.asked)

	look := func(after time.Duration) {
		c.after(after)
		c.s.listed = c.s.now
		require.NoError(t, r.submit(t.Context(), c.s))
	}
	look(time.Minute)
	assert.Equal(t, 1, m.asked, "a listing may lack a job that is on its way")
	require.NoError(t, r.giveBackUnsubmitted(t.Context(), c.s))
	assert.True(t, a.live(), "nor is it known that there is none")
	c.s.job = job
	look(2 * time.Minute)
	require.NotNil(t, a.job)
	assert.Equal(t, "7", a.job.ID)
	assert.Equal(t, 1, m.asked)
}
