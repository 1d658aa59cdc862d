package provider

import (
	"context"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// crowded is a site whose filesystem has no room until it is given some.
type crowded struct {
	site.Site
	room bool
}

func (c *crowded) Write(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	if !c.room {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EDQUOT}
	}
	return c.Site.Write(ctx, path, data, mode)
}

// fullScene is a running allocation in a spool that has no room.
func fullScene(t *testing.T) (*Reconciler, *cancelling, *scene, *crowded) {
	r, m, c := cancelScene(t, wlm.PhaseRunning)
	r.registry = newRegistry(c.names())
	r.config.ReleaseTimeout.Duration = 30 * time.Second
	full := &crowded{Site: c.s.alloc.site}
	c.s.alloc.site = full
	r.registry.add(c.s.alloc)
	c.s.reports[0].Agent.Instance = "i"
	return r, m, c, full
}

func TestWhatFillsTheSpoolCanBeDeleted(t *testing.T) {
	r, m, c, _ := fullScene(t)
	a := c.s.alloc
	p := deleted(c.worker(0), 30)
	c.started(p, 0)
	look := func(after time.Duration) {
		c.after(after)
		assert.True(t, spool.IsFull(r.order(t.Context(), c.s)))
		if c.s.releasing {
			assert.True(t, spool.IsFull(r.giveBack(t.Context(), c.s)))
		}
	}
	look(0)
	assert.Contains(t, <-r.recorder.(*record.FakeRecorder).Events, "cannot be told to stop it: disk quota exceeded")
	look(80 * time.Second)
	assert.False(t, c.s.releasing, "its agent might have been slow as well")
	assert.LessOrEqual(t, c.s.recheck, 10*time.Second)
	assert.Equal(t, spool.ActionRun, a.desired[0].Action)
	look(10 * time.Second)
	assert.True(t, c.s.releasing)
	assert.Empty(t, m.asked, "there may be room in time to ask the agents")
	look(r.config.ReleaseTimeout.Duration)
	assert.Equal(t, []string{"7"}, m.asked)
	assert.Empty(t, r.recorder.(*record.FakeRecorder).Events, "it is told once")
}

func TestAStopThatCouldNotBeWrittenAtOnceGivesThePodItsTime(t *testing.T) {
	r, _, c, full := fullScene(t)
	p := deleted(c.worker(0), 30)
	c.started(p, 0)
	c.decide()
	require.Error(t, r.order(t.Context(), c.s))
	full.room = true
	c.after(80 * time.Second)
	require.NoError(t, r.order(t.Context(), c.s))
	c.decide()
	assert.False(t, c.after(80*time.Second).releasing, "its agent was told just now")
	assert.True(t, c.after(10*time.Second).releasing)
}

func TestAReleaseThatCouldNotBeWrittenIsMadeUpFor(t *testing.T) {
	r, m, c, full := fullScene(t)
	require.Error(t, r.giveBack(t.Context(), c.s))
	full.room = true
	require.NoError(t, r.giveBack(t.Context(), c.s))
	var written spool.Gang
	ok, err := c.s.alloc.read(t.Context(), c.s.alloc.dir.Gang(), &written)
	require.NoError(t, err)
	assert.True(t, ok && written.Release)
	assert.Empty(t, m.asked)
}

func TestAnEndThatCannotBeWrittenIsAnEndWhereNobodyNeedsIt(t *testing.T) {
	for sentence, tc := range map[string]struct {
		prepare func(*scene)
		ends    bool
	}{
		"the last of a gang whose owner is gone": {func(c *scene) { c.s.owner.gone = true }, true},
		"a pod of it is still to go": {func(c *scene) {
			c.s.owner.gone = true
			c.decide()
			c.started(deleted(c.worker(0), 30), 0)
		}, false},
		"its owner may bring more pods":         {func(*scene) {}, false},
		"it never had a job, and its pods go":   {func(c *scene) { c.s.alloc.job = nil; deleted(c.worker(0), 30) }, true},
		"it never had a job, and a pod is left": {func(c *scene) { c.s.alloc.job = nil; c.worker(0) }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			r, _, c, full := fullScene(t)
			tc.prepare(c)
			c.decide()
			err := r.markEnded(t.Context(), c.s, spool.Ended{Outcome: "Cancelled"})
			assert.Equal(t, tc.ends, err == nil)
			assert.Equal(t, tc.ends, !c.s.alloc.live())
			full.room = true
			if !tc.ends {
				require.NoError(t, r.markEnded(t.Context(), c.s, spool.Ended{Outcome: "Cancelled"}))
				assert.FileExists(t, c.s.alloc.dir.Ended())
			}
		})
	}
}

func TestAJobOfWhichNothingCanBeWrittenIsCancelled(t *testing.T) {
	r, m, c, _ := fullScene(t)
	a := c.s.alloc
	a.job, a.untouched, a.lastTry = nil, false, testNow.Add(-time.Second)
	require.Error(t, r.giveBack(t.Context(), c.s))
	require.NotNil(t, a.job, "it was found in the list")
	c.after(time.Minute)
	assert.False(t, c.s.mustSubmit())
	require.Error(t, r.giveBack(t.Context(), c.s))
	assert.Equal(t, []string{"7"}, m.asked)
}

// Its finalizer must not wait for the word that the allocation has ended, which may never be
// written.
func TestAPodThatSomebodyElseHasFailedIsOverWithItsJob(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := deleted(c.worker(0), 30)
	c.started(p, 0)
	p.pod.Status.Phase = corev1.PodFailed
	c.decide()
	assert.True(t, p.running())
	c.s.job.Phase, c.s.job.Outcome = wlm.PhaseEnded, wlm.OutcomeCancelled
	require.NotNil(t, c.after(3*time.Second).ending)
	assert.False(t, p.running())
}
