package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

// history makes sacct's output; each line's fields are separated by bars.
func history(lines ...string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "|", fieldSeparator)
}

// anyReader takes everybody's jobs, and knows root and ada.
func anyReader() reader {
	return reader{of: anybody, name: func(uid int) string { return map[int]string{0: "root", 1001: "ada"}[uid] }}
}

// The lines are what sacct of Slurm 22.05.8 printed.
func TestEndedJobsAreReadFromSacct(t *testing.T) {
	const times = "|2026-11-30T01:43:46|2026-11-30T01:43:47|2026-11-30T01:43:50|"
	tests := map[string]struct {
		lines   []string
		outcome wlm.Outcome
		reason  string
	}{
		"exit code 0":           {[]string{"7|COMPLETED|ada|1001|hpc1" + times + "0:0|pi-1"}, wlm.OutcomeCompleted, ""},
		"another exit code":     {[]string{"7|FAILED|ada|1001|hpc1" + times + "3:0|pi-1"}, wlm.OutcomeFailed, "exit code 3"},
		"a signal":              {[]string{"7|FAILED|ada|1001|hpc1" + times + "0:9|pi-1"}, wlm.OutcomeFailed, "signal 9"},
		"by an administrator":   {[]string{"7|CANCELLED by 0|ada|1001|hpc1" + times + "0:15|pi-1"}, wlm.OutcomeCancelled, "by root"},
		"by one nobody knows":   {[]string{"7|CANCELLED by 54321|ada|1001|hpc1" + times + "0:15|pi-1"}, wlm.OutcomeCancelled, "by uid 54321"},
		"a time limit":          {[]string{"7|TIMEOUT|ada|1001|hpc1" + times + "0:0|pi-1"}, wlm.OutcomeTimeout, ""},
		"memory":                {[]string{"7|OUT_OF_MEMORY|ada|1001|hpc1" + times + "0:125|pi-1"}, wlm.OutcomeOutOfMemory, "signal 125"},
		"a node":                {[]string{"7|NODE_FAIL|ada|1001|hpc1" + times + "1:0|pi-1"}, wlm.OutcomeNodeFailure, "exit code 1"},
		"the cause among parts": {[]string{"7+0|CANCELLED by 0|ada|1001|hpc1" + times + "0:15|pi-1", "7+1|NODE_FAIL|ada|1001|hpc2" + times + "1:0|pi-1"}, wlm.OutcomeNodeFailure, "exit code 1"},
		"an id that was given twice": {[]string{"7|FAILED|ada|1001|hpc1" + times + "3:0|another-1", "7|COMPLETED|ada|1001|hpc1" + times + "0:0|pi-1"},
			wlm.OutcomeCompleted, ""},
		"a job that was requeued": {[]string{"7|REQUEUED|ada|1001|hpc1|2026-11-30T01:40:00|2026-11-30T01:40:01|2026-11-30T01:40:02|0:0|pi-1",
			"7|PREEMPTED|ada|1001|hpc1" + times + "0:0|pi-1"}, wlm.OutcomePreempted, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, ref := range []wlm.JobRef{{Name: "pi-1", ID: "7"}, {Name: "pi-1"}} {
				ended := map[string]wlm.Job{}
				require.NoError(t, anyReader().collectEnded(history(tt.lines...), []wlm.JobRef{ref, {Name: "never-was"}}, ended))
				require.Len(t, ended, 1)
				job := ended["pi-1"]
				assert.Equal(t, "7", job.ID)
				assert.Equal(t, wlm.PhaseEnded, job.Phase)
				assert.Equal(t, tt.outcome, job.Outcome)
				assert.Equal(t, tt.reason, job.Reason)
				assert.Equal(t, time.Date(2026, 11, 30, 1, 43, 50, 0, time.UTC), job.Ended)
			}
		})
	}
}

func TestWhatHasNotEndedIsNoHistory(t *testing.T) {
	const times = "|2026-11-30T01:43:46|2026-11-30T01:43:47|Unknown|"
	tests := map[string]string{
		"a job that runs":                 "7|RUNNING|ada|1001|hpc1" + times + "0:0|pi-1",
		"a job that waits":                "7|PENDING|ada|1001|None assigned" + times + "0:0|pi-1",
		"a state nobody knows":            "7|LEVITATING|ada|1001|hpc1" + times + "0:0|pi-1",
		"another job of the id":           "7|FAILED|ada|1001|hpc1" + times + "1:0|another-1",
		"another job of the name":         "8|FAILED|ada|1001|hpc1" + times + "1:0|pi-1",
		"a name that begins like the one": "7|FAILED|ada|1001|hpc1" + times + "1:0|pi-10",
	}
	for name, line := range tests {
		t.Run(name, func(t *testing.T) {
			ended := map[string]wlm.Job{}
			require.NoError(t, anyReader().collectEnded(history(line), []wlm.JobRef{{Name: "pi-1", ID: "7"}}, ended))
			assert.Empty(t, ended)
		})
	}
	for _, out := range []string{"hello\n", history("7.batch|FAILED|ada|1001|hpc1" + times + "1:0|batch")} {
		assert.Error(t, anyReader().collectEnded(out, nil, nil), out)
	}
	assert.NoError(t, anyReader().collectEnded("", []wlm.JobRef{{Name: "pi-1"}}, map[string]wlm.Job{}))
}

func TestASiteWithoutHistoryIsToldFromAFailedQuery(t *testing.T) {
	refs := []wlm.JobRef{{Name: "pi-1", ID: "7", Submitted: time.Now()}}
	tests := map[string]struct {
		sacct       string // its script; empty for none
		unsupported bool
	}{
		"no sacct":    {"", true},
		"no database": {"echo 'Slurm accounting storage is disabled' >&2; exit 1", true},
		"no slurmdbd": {"echo 'sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection' >&2; exit 1", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			scripts := map[string]string{}
			if tt.sacct != "" {
				scripts["sacct"] = tt.sacct
			}
			ended, err := newManager(t, Config{Bin: fakeTools(t, scripts)}).Ended(t.Context(), refs)
			assert.Nil(t, ended)
			require.Error(t, err)
			assert.Equal(t, tt.unsupported, errors.Is(err, errors.ErrUnsupported), err.Error())
		})
	}
}

func TestManyJobsAreAskedForInOneQuery(t *testing.T) {
	m := newManager(t, Config{Bin: fakeTools(t, map[string]string{"sacct": `echo "$@" >&2; exit 1`})})
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	_, err := m.Ended(t.Context(), []wlm.JobRef{{Name: "pi-1", ID: "7", Submitted: at}, {Name: "pi-2", Submitted: at.Add(-time.Minute)}})
	assert.ErrorContains(t, err, "--name=pi-1,pi-2 ")
	assert.ErrorContains(t, err, "--starttime=2026-11-30T10:59:00 ")
	ended, err := m.Ended(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, ended, "nobody is asked for nothing")
}
