package slurm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/wlm"
	devslurm "github.com/gangline/gangline/test/slurm"
)

// TestJobsThatSlurmctldHasForgotten needs as long as slurmctld needs to forget: it looks
// for old jobs once a minute.
func TestJobsThatSlurmctldHasForgotten(t *testing.T) {
	t.Parallel()
	dev := devslurm.ForTest(t, devslurm.Config{Nodes: 2, Accounting: true, MinJobAge: 2})
	require.NoError(t, os.WriteFile(filepath.Join(dev.SharedDir(), "agent"), []byte(agent), 0o755))
	tm := newTeam(t, dev)
	manager, end := tm.overCLI(t, tm.access[sites.Setuid], append(tm.uids(), nobody)...)
	t.Cleanup(func() { assert.NoError(t, end()) })
	c := tm.of(0, "cli", manager)

	tests := []struct {
		name    string
		end     func(ctx context.Context, dir, id string) error
		outcome wlm.Outcome
		reason  string
	}{
		{"completed", func(_ context.Context, dir, _ string) error { return touch(dir, "end") }, wlm.OutcomeCompleted, ""},
		{"failed", nil, wlm.OutcomeFailed, "exit code 3"},
		{"cancelled", func(ctx context.Context, _, id string) error { return manager.Cancel(ctx, "", id) }, wlm.OutcomeCancelled, "by " + c.user},
		{"out-of-time", func(ctx context.Context, _, id string) error {
			_, err := dev.Output(ctx, devslurm.Head, "scontrol", "update", "jobid="+id, "endtime=now")
			return err
		}, wlm.OutcomeTimeout, ""},
	}
	var refs []wlm.JobRef
	for _, tt := range tests {
		r := c.request(t, tt.name, tasks(1, 1, 64, 0))
		if tt.end == nil {
			require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "exit-code"), []byte("3"), 0o644))
		}
		id, err := c.Submit(t.Context(), r)
		require.NoError(t, err)
		refs = append(refs, wlm.JobRef{Name: r.Name, ID: id, Submitted: time.Now()})
		if tt.end != nil {
			read(t, r, "ready")
			require.NoError(t, tt.end(t.Context(), r.Dir, id))
		}
	}
	require.Eventually(t, func() bool {
		jobs, err := c.List(t.Context())
		return err == nil && !slices.ContainsFunc(jobs, func(j wlm.Job) bool { return j.Name == "cancelled" || j.Name == "failed" || j.Name == "completed" })
	}, 3*time.Minute, time.Second, "slurmctld does not forget")

	refs[0].ID = "" // a submission that was never answered is found as well
	var ended map[string]wlm.Job
	var err error
	require.Eventually(t, func() bool {
		ended, err = manager.Ended(t.Context(), append(refs, wlm.JobRef{Name: "never-was", Submitted: time.Now()}))
		return err == nil && len(ended) == len(tests)
	}, 3*time.Minute, time.Second, "not all have ended")
	for _, tt := range tests {
		assert.Equal(t, tt.outcome, ended[tt.name].Outcome, tt.name)
		assert.Equal(t, tt.reason, ended[tt.name].Reason, tt.name)
	}
}

func touch(dir, name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
