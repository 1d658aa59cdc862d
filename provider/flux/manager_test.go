package flux_test

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	bindings "github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/flux/fluxtest"
	"github.com/gangline/gangline/provider/flux"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// agent stands in for the real one: it tells what it was given, and waits to be let go.
const agent = `#!/bin/sh
test "$1" = serve || exit 64
cd "$2" || exit 65
echo "$GANGLINE_JOB_ID $FLUX_TASK_RANK $CUDA_VISIBLE_DEVICES $GANGLINE_KILL_WAIT" >ready.$FLUX_TASK_RANK.new
mv ready.$FLUX_TASK_RANK.new ready.$FLUX_TASK_RANK
while ! test -e end; do sleep 0.05; done
exit "$(cat end)"
`

// instance is one Flux with a manager, as both stand in the tests.
type instance struct {
	*flux.Manager
	broker *fluxtest.Broker // nil for a real one
	cfg    flux.Config
	spool  string
}

func start(t *testing.T) *instance {
	t.Helper()
	return startWith(t, func(*fluxtest.Config) {})
}

func startWith(t *testing.T, change func(*fluxtest.Config)) *instance {
	t.Helper()
	library, err := fluxtest.Library(t.TempDir())
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "flux") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	b := startBroker(t, dir, change)
	return newInstance(t, b, flux.Config{URI: b.URI(), Library: library, NodeMemoryMiB: 1024})
}

func startBroker(t *testing.T, dir string, change func(*fluxtest.Config)) *fluxtest.Broker {
	cfg := fluxtest.Config{
		Dir: dir, KillTimeout: 5 * time.Second, // Flux's own
		Nodes: []fluxtest.Node{{Name: "n0", Cores: 2, GPUs: 2, Properties: []string{"big"}}, {Name: "n1", Cores: 2}},
	}
	change(&cfg)
	b, err := fluxtest.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func newInstance(t *testing.T, b *fluxtest.Broker, cfg flux.Config) *instance {
	m, err := flux.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	c := &instance{Manager: m, broker: b, cfg: cfg, spool: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(c.spool, "agent"), []byte(agent), 0o700))
	return c
}

// everywhere runs a test with the double, and in a real instance where there is one.
func everywhere(t *testing.T, test func(*testing.T, *instance)) {
	t.Run("double", func(t *testing.T) { test(t, start(t)) })
	library, uri := os.Getenv("GANGLINE_FLUX_LIBRARY"), os.Getenv("FLUX_URI")
	if library == "" || uri == "" {
		t.Log("not run in a real Flux: GANGLINE_FLUX_LIBRARY and FLUX_URI are not both set")
		return
	}
	t.Run("real", func(t *testing.T) {
		test(t, newInstance(t, nil, flux.Config{URI: uri, Library: library, NodeMemoryMiB: 1024}))
	})
}

func (c *instance) request(t *testing.T, name string, groups ...translate.TaskGroup) translate.Request {
	dir := filepath.Join(c.spool, name)
	require.NoError(t, os.Mkdir(dir, 0o700))
	return translate.Request{
		Name: name + "-" + filepath.Base(filepath.Dir(c.spool)), Comment: "gangline: JobSet default/" + name,
		Groups: groups, Agent: filepath.Join(c.spool, "agent"), Dir: dir,
	}
}

func tasks(n, cpus, gpus int) translate.TaskGroup {
	return translate.TaskGroup{Tasks: n, Resources: translate.Resources{CPUs: cpus, GPUs: gpus}}
}

func (c *instance) waitFor(t *testing.T, id string, phase wlm.Phase) wlm.Job {
	t.Helper()
	var job wlm.Job
	require.Eventually(t, func() bool {
		jobs, err := c.List(t.Context())
		require.NoError(t, err)
		for _, j := range jobs {
			if j.ID == id {
				job = j
			}
		}
		return job.Phase == phase
	}, 20*time.Second, 20*time.Millisecond, "job %s", id)
	return job
}

func (c *instance) end(t *testing.T, r translate.Request, code string) {
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, "end"), []byte(code), 0o600))
}

func waitForFile(t *testing.T, path string) string {
	t.Helper()
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 20*time.Second, 10*time.Millisecond, path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestAGangFromItsSubmissionToItsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, c *instance) {
		r := c.request(t, "gang", tasks(2, 1, 0))
		r.TimeLimit = time.Hour
		id, err := c.Submit(t.Context(), r)
		require.NoError(t, err)
		assert.Equal(t, id+" 0  3s\n", waitForFile(t, filepath.Join(r.Dir, "ready.0")))
		assert.Equal(t, id+" 1  3s\n", waitForFile(t, filepath.Join(r.Dir, "ready.1")))
		job := c.waitFor(t, id, wlm.PhaseRunning)
		me, err := user.Current()
		require.NoError(t, err)
		assert.Equal(t, []string{r.Name, me.Username, "RUN"}, []string{job.Name, job.User, job.State})
		assert.NotEmpty(t, job.Nodes)
		assert.InDelta(t, time.Hour.Seconds(), job.LimitEnd.Sub(job.Started).Seconds(), 5)
		inventory, err := c.Inventory(t.Context())
		require.NoError(t, err)
		used := 0
		for _, n := range inventory.Partitions[0].Nodes {
			used += n.Used.CPUs
		}
		assert.Equal(t, 2, used)
		c.end(t, r, "0")
		job = c.waitFor(t, id, wlm.PhaseEnded)
		assert.Equal(t, wlm.OutcomeCompleted, job.Outcome)
		assert.False(t, job.Ended.IsZero())
		ended, err := c.Ended(t.Context(), []wlm.JobRef{{Name: r.Name, ID: id}, {Name: "another"}})
		require.NoError(t, err)
		assert.Equal(t, map[string]wlm.Job{r.Name: job}, ended)
	})
}

func TestHowGangsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, c *instance) {
		for name, how := range map[string]struct {
			change  func(*translate.Request)
			act     func(t *testing.T, r translate.Request, id string)
			outcome wlm.Outcome
			words   string
		}{
			"fails":       {act: func(t *testing.T, r translate.Request, _ string) { c.end(t, r, "3") }, outcome: wlm.OutcomeFailed},
			"cancelled":   {act: func(t *testing.T, _ translate.Request, id string) { require.NoError(t, c.Cancel(t.Context(), "", id)) }, outcome: wlm.OutcomeCancelled, words: "cancelled by Gangline"},
			"timeout":     {change: func(r *translate.Request) { r.TimeLimit = time.Second }, outcome: wlm.OutcomeTimeout, words: "expired"},
			"never":       {change: func(r *translate.Request) { r.Groups[0].CPUs = 500 }, outcome: wlm.OutcomeFailed, words: "unsatisfiable"},
			"no-program":  {change: func(r *translate.Request) { r.Agent = "/no/such/agent" }, outcome: wlm.OutcomeFailed},
			"never-after": {change: func(r *translate.Request) { r.Dependency = "afterok:" + c.failed(t) }, outcome: wlm.OutcomeFailed},
		} {
			t.Run(name, func(t *testing.T) {
				r := c.request(t, name, tasks(1, 1, 0))
				if how.change != nil {
					how.change(&r)
				}
				id, err := c.Submit(t.Context(), r)
				if name == "never-after" && c.broker == nil {
					// Flux refuses what could never start.
					var refused *wlm.RejectedError
					require.ErrorAs(t, err, &refused)
					return
				}
				require.NoError(t, err)
				if how.act != nil {
					waitForFile(t, filepath.Join(r.Dir, "ready.0"))
					how.act(t, r, id)
				}
				job := c.waitFor(t, id, wlm.PhaseEnded)
				assert.Equal(t, how.outcome, job.Outcome, "%+v", job)
				assert.Contains(t, job.Explanation, how.words)
				assert.NoError(t, c.Cancel(t.Context(), "", id), "it is gone")
			})
		}
		assert.NoError(t, c.Cancel(t.Context(), "", "f999"), "it never was")
		assert.Error(t, c.Cancel(t.Context(), "", "17; rm"))
	})
}

// failed is the id of a job that has failed.
func (c *instance) failed(t *testing.T) string {
	r := c.request(t, "failed", tasks(1, 1, 0))
	c.end(t, r, "1")
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	c.waitFor(t, id, wlm.PhaseEnded)
	return id
}

func TestWaitingJobsSayWhy(t *testing.T) {
	c := start(t)
	first := c.request(t, "first", tasks(4, 1, 0))
	id, err := c.Submit(t.Context(), first)
	require.NoError(t, err)
	second := c.request(t, "second", tasks(1, 1, 0))
	second.Dependency = "afterany:" + id
	third := c.request(t, "third", tasks(1, 1, 0))
	for r, reason := range map[*translate.Request]string{&second: "Dependency", &third: "Resources"} {
		id, err := c.Submit(t.Context(), *r)
		require.NoError(t, err)
		job := c.waitFor(t, id, wlm.PhaseQueued)
		assert.Equal(t, reason, job.Reason)
		assert.NotEmpty(t, job.Explanation)
	}
	c.end(t, first, "0")
	waitForFile(t, filepath.Join(second.Dir, "ready.0"))
}

func TestEachSlotHasGPUsOfItsOwn(t *testing.T) {
	c := start(t)
	r := c.request(t, "gpus", tasks(1, 1, 0), tasks(1, 1, 1))
	r.Constraint = "big"
	_, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, k := range []string{"0", "1"} {
		seen[strings.Fields(waitForFile(t, filepath.Join(r.Dir, "ready."+k)))[2]] = true
	}
	assert.Equal(t, map[string]bool{"0": true, "1": true}, seen)
}

func TestInventoryOfTheDouble(t *testing.T) {
	c := start(t)
	c.broker.Drain("n1", "broken fan")
	inventory, err := c.Inventory(t.Context())
	require.NoError(t, err)
	assert.Equal(t, wlm.Inventory{ComponentsShareNodes: true, Partitions: []wlm.Partition{{Name: "default", Default: true, Nodes: []wlm.Node{
		{Name: "n0", CPUs: 2, GPUs: 2, MemoryMiB: 1024, Features: []string{"big"}, State: "free", Usable: true},
		{Name: "n1", CPUs: 2, MemoryMiB: 1024, State: "drained: broken fan"},
	}}}}, inventory)
	name, err := c.Name(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "flux "+fluxtest.Version, name)
}

func TestWhenTheBrokerIsAway(t *testing.T) {
	c := start(t)
	dir := filepath.Dir(strings.TrimPrefix(c.cfg.URI, "local://"))
	r := c.request(t, "gang", tasks(1, 1, 0))
	c.broker.Crash()
	_, err := c.List(t.Context())
	assert.Error(t, err, "nothing is not what a dead broker says")
	_, err = c.Submit(t.Context(), r)
	require.Error(t, err)
	var refused *wlm.RejectedError
	assert.NotErrorAs(t, err, &refused)
	startBroker(t, dir, func(*fluxtest.Config) {})
	_, err = c.List(t.Context())
	assert.NoError(t, err, "the connection is made anew")
	_, err = c.Submit(t.Context(), r)
	assert.NoError(t, err)
}

func TestWithoutFlux(t *testing.T) {
	_, err := flux.New(t.Context(), flux.Config{Library: "/no/such/libflux-core.so.2", NodeMemoryMiB: 1})
	assert.ErrorIs(t, err, bindings.ErrUnavailable)
	_, err = flux.New(t.Context(), flux.Config{})
	assert.ErrorContains(t, err, "memory")
}
