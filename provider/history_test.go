package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

// accountant is a workload manager whose listing is empty and that keeps accounts.
type accountant struct {
	wlm.Manager
	ended map[string]wlm.Job
	err   error
	asked [][]wlm.JobRef
}

func (a *accountant) List(context.Context) ([]wlm.Job, error) { return nil, nil }

func (a *accountant) Ended(_ context.Context, jobs []wlm.JobRef) (map[string]wlm.Job, error) {
	a.asked = append(a.asked, jobs)
	return a.ended, a.err
}

func TestAJobThatLeftTheListIsLookedUpInTheAccounts(t *testing.T) {
	first := wlm.JobRef{Name: "pi-1", ID: "7", Submitted: time.Now().Add(-time.Minute)}
	second := wlm.JobRef{Name: "pi-2", Submitted: time.Now().Add(-time.Hour)}
	waited := []wlm.JobRef{first, second, {Name: "pi-3", Submitted: time.Now().Add(time.Minute)}}
	timeout := wlm.Job{ID: "7", Name: "pi-1", Phase: wlm.PhaseEnded, Outcome: wlm.OutcomeTimeout}
	m := &accountant{ended: map[string]wlm.Job{"pi-1": timeout}}
	table := &jobTable{manager: m, history: newHistory(m, func() []wlm.JobRef { return waited })}

	changed, err := table.refresh(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"pi-1"}, changed)
	require.Len(t, m.asked, 1, "one query for all")
	assert.ElementsMatch(t, []wlm.JobRef{first, second}, m.asked[0], "a listing does not tell of what came later")

	changed, err = table.refresh(t.Context())
	require.NoError(t, err)
	assert.Empty(t, changed)
	assert.Len(t, m.asked, 1, "neither is asked for again at once")
	jobs, _ := table.named("pi-1")
	assert.Equal(t, []wlm.Job{timeout}, jobs)

	waited = nil
	changed, err = table.refresh(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"pi-1"}, changed, "nobody waits for it any more")
}

func TestHistoryAsksWhatItDoesNotKnowAgain(t *testing.T) {
	now := time.Now()
	for sentence, tc := range map[string]struct {
		err   error
		after time.Duration
		asked int
	}{
		"not at once":                           {after: time.Second, asked: 1},
		"after a pause":                         {after: historyAgain, asked: 2},
		"also when the accounts did not answer": {err: errors.New("timeout"), after: historyAgain, asked: 2},
		"never where there are none":            {err: fmt.Errorf("sacct: %w", errors.ErrUnsupported), after: historyAgain, asked: 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			m := &accountant{err: tc.err}
			h := newHistory(m, func() []wlm.JobRef { return []wlm.JobRef{{Name: "pi-1", Submitted: now.Add(-time.Minute)}} })
			byName := map[string][]wlm.Job{}
			h.complete(t.Context(), byName, now)
			h.complete(t.Context(), byName, now.Add(tc.after))
			assert.Len(t, m.asked, tc.asked)
			assert.Empty(t, byName)
		})
	}
}
