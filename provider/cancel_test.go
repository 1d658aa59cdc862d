package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// cancelling is a workload manager that is asked to cancel jobs.
type cancelling struct {
	wlm.Manager
	asked []string
	err   error
}

func (m *cancelling) Cancel(_ context.Context, _, jobID string) error {
	m.asked = append(m.asked, jobID)
	return m.err
}

func cancelScene(t *testing.T, phase wlm.Phase) (*Reconciler, *cancelling, *scene) {
	c := newScene(t)
	c.allocated(phase)
	m := &cancelling{}
	return &Reconciler{manager: m, kind: "Slurm", recorder: record.NewFakeRecorder(10)}, m, c
}

func TestAJobIsCancelledUntilListingsShowItsEnd(t *testing.T) {
	r, m, c := cancelScene(t, wlm.PhaseRunning)
	a := c.s.alloc
	m.err = errors.New("the controller is busy")
	r.cancel(t.Context(), c.s)
	assert.Equal(t, []string{"7"}, m.asked)
	assert.Contains(t, a.cancelError, "busy")

	c.s.now = a.cancelledAt.Add(time.Hour)
	r.cancel(t.Context(), c.s)
	assert.Len(t, m.asked, 1, "a workload manager that is silent since is not asked again")

	for try := 2; try < 8; try++ {
		c.s.listed = a.cancelledAt.Add(time.Millisecond)
		c.s.now = c.s.listed
		r.cancel(t.Context(), c.s)
		assert.Len(t, m.asked, try-1, "not at once: the pauses grow")
		c.s.now = a.cancelledAt.Add(longestRetry)
		r.cancel(t.Context(), c.s)
		assert.Len(t, m.asked, try, "again and again")
	}
	tries := len(m.asked)
	c.s.job.Phase, c.s.now = wlm.PhaseEnding, c.s.now.Add(time.Hour)
	r.cancel(t.Context(), c.s)
	assert.Len(t, m.asked, tries, "it is ending")
	c.s.job = nil
	r.cancel(t.Context(), c.s)
	assert.Len(t, m.asked, tries, "never by the number alone")
	assert.Len(t, r.recorder.(*record.FakeRecorder).Events, 0, "the gang has no pods that could be told")
}

func TestPausesGrow(t *testing.T) {
	for tries, want := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 4: 40 * time.Second, 5: time.Minute, 99: time.Minute} {
		assert.Equal(t, want, backOff(tries, time.Minute), tries)
	}
	assert.Zero(t, (&retries{}).left(testNow), "the first try is made at once")
}

func TestJobsOfNobodyArePursuedWithPauses(t *testing.T) {
	p := &pursuit{}
	assert.True(t, p.due("7", testNow))
	assert.False(t, p.due("7", testNow.Add(time.Second)))
	assert.True(t, p.due("8", testNow), "each has its own pauses")
	assert.True(t, p.due("7", testNow.Add(firstRetry)))
	assert.False(t, p.due("7", testNow.Add(firstRetry+firstRetry)), "the second pause is longer")
	p.keep([]wlm.Job{{ID: "8"}})
	assert.True(t, p.due("7", testNow.Add(time.Second)), "a job that went and came back is another story")
}

func TestAJobOfNobodyIsNotCancelledAtEachListing(t *testing.T) {
	r, m, _ := cancelScene(t, wlm.PhaseRunning)
	assert.True(t, r.pursue(t.Context(), wlm.Job{ID: "8", User: "u"}, "nobody waits for it"))
	assert.False(t, r.pursue(t.Context(), wlm.Job{ID: "8", User: "u"}, "nobody waits for it"))
	assert.Equal(t, []string{"8"}, m.asked)
}

func TestTimesThatLieAheadAreTakenForNow(t *testing.T) {
	names := translate.Names{Cluster: "c", Node: "n"}
	a := newScene(t).allocated(wlm.PhaseRunning)
	require.NoError(t, spool.Write(a.dir.Job(), spool.Job{ID: "7", Submitted: testNow}))
	a.gang.Release = true
	require.NoError(t, a.writeGang(t.Context()))
	// The clock was set back by an hour while nobody looked.
	for sentence, now := range map[string]time.Time{"the clock was set back": testNow.Add(-time.Hour), "it was not": testNow.Add(time.Hour)} {
		got, err := loadAllocation(t.Context(), ownerOf(a), a.name(), nil, names, now)
		require.NoError(t, err, sentence)
		assert.False(t, got.job.Submitted.After(now), sentence)
		assert.False(t, got.releasedAt.After(now), sentence)
	}
}

func TestWhoNobodyCanAskToGoIsCancelledAtOnce(t *testing.T) {
	for sentence, tc := range map[string]struct {
		phase    wlm.Phase
		reported bool
		asked    int
	}{
		"a job in the queue":                     {wlm.PhaseQueued, false, 1},
		"a job whose nodes are booting":          {wlm.PhaseStarting, false, 1},
		"a job that starts its agents":           {wlm.PhaseRunning, false, 0},
		"a job that Slurm has forgotten to know": {wlm.PhaseQueued, true, 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			r, m, c := cancelScene(t, tc.phase)
			r.config.ReleaseTimeout.Duration = 30 * time.Second
			if tc.reported {
				c.s.reports[0].Agent.Instance = "i"
			}
			require.NoError(t, r.giveBack(t.Context(), c.s))
			assert.Len(t, m.asked, tc.asked)
			c.s.now = c.s.now.Add(time.Minute)
			require.NoError(t, r.giveBack(t.Context(), c.s))
			assert.Len(t, m.asked, 1, "patience ends")
		})
	}
}

// silent is a workload manager that answers one user nothing until it is told to.
type silent struct {
	wlm.Manager
	user  string
	until chan struct{}
	asked chan string // job ids
}

func (m *silent) Cancel(_ context.Context, user, jobID string) error {
	m.asked <- jobID
	if user == m.user {
		<-m.until
	}
	return nil
}

func TestAUserWhoseSiteIsSilentHoldsUpNobodysLateJobs(t *testing.T) {
	a := newScene(t).allocated(wlm.PhaseRunning)
	a.ended = &spool.Ended{}
	synctest.Test(t, func(t *testing.T) {
		m := &silent{user: "mallory", until: make(chan struct{}), asked: make(chan string, 9)}
		r := &Reconciler{manager: m, registry: newRegistry(translate.Names{}), jobs: &jobTable{}}
		r.registry.add(a)
		lists := func(jobs ...wlm.Job) {
			for i := range jobs {
				jobs[i].Name, jobs[i].Phase = a.name(), wlm.PhaseRunning
			}
			r.jobs.byName = map[string][]wlm.Job{a.name(): jobs}
			go r.cancelLate(t.Context())
			synctest.Wait()
		}
		asked := func() []string {
			var ids []string
			for len(m.asked) > 0 {
				ids = append(ids, <-m.asked)
			}
			return ids
		}
		first, second := wlm.Job{ID: "7", User: "mallory"}, wlm.Job{ID: "8", User: "ada"}
		lists(first, second)
		assert.ElementsMatch(t, []string{"7", "8"}, asked(), "each user's beside the others'")
		lists(first, wlm.Job{ID: "9", User: "mallory"}, wlm.Job{ID: "10", User: "ada"})
		assert.Equal(t, []string{"10"}, asked(), "one user's once at a time")
		close(m.until)
		synctest.Wait()
		lists(wlm.Job{ID: "9", User: "mallory"})
		assert.Equal(t, []string{"9"}, asked(), "what was left has its turn with the next listing")
	})
}
