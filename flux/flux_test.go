package flux_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/flux/fluxtest"
)

// The variable that names a real libflux-core to run the tests with as well. Where
// FLUX_URI is set too, they also run in that instance, which needs 4 cores.
const libraryVariable = "GANGLINE_FLUX_LIBRARY"

const path = "/usr/local/bin:/usr/bin:/bin"

// place is one combination of a library and an instance.
type place struct {
	name, library, uri string
	broker             *fluxtest.Broker // nil for a real instance
}

func startBroker(t *testing.T, change ...func(*fluxtest.Config)) *fluxtest.Broker {
	t.Helper()
	dir, err := os.MkdirTemp("", "flux") // short enough for a socket
	require.NoError(t, err)
	cfg := fluxtest.Config{
		Dir:         dir,
		Nodes:       []fluxtest.Node{{Name: "n0", Cores: 2, GPUs: 2, Properties: []string{"big"}}, {Name: "n1", Cores: 2}},
		KillTimeout: 2 * time.Second,
	}
	for _, c := range change {
		c(&cfg)
	}
	b, err := fluxtest.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		b.Close()
		assert.NoError(t, os.RemoveAll(dir))
	})
	return b
}

func double(t *testing.T) string {
	t.Helper()
	library, err := fluxtest.Library(t.TempDir())
	require.NoError(t, err)
	return library
}

// everywhere runs a test with each library and instance that there is.
func everywhere(t *testing.T, test func(t *testing.T, p place)) {
	t.Run("doubles of both", func(t *testing.T) {
		b := startBroker(t)
		test(t, place{"doubles", double(t), b.URI(), b})
	})
	library := os.Getenv(libraryVariable)
	if library == "" {
		t.Logf("not run with a real libflux-core: %s is not set", libraryVariable)
		return
	}
	t.Run("a real library with the double of a broker", func(t *testing.T) {
		b := startBroker(t)
		test(t, place{"real library", library, b.URI(), b})
	})
	if uri := os.Getenv("FLUX_URI"); uri != "" {
		t.Run("a real Flux", func(t *testing.T) { test(t, place{"real", library, uri, nil}) })
	}
}

func (p place) open(t *testing.T) *flux.Handle {
	t.Helper()
	h, err := flux.Open(t.Context(), p.uri, flux.Options{Library: p.library})
	require.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// shell is a job that runs a script in each slot.
func shell(slots int, script string) flux.Jobspec {
	spec := flux.NewJobspec(flux.Slots{Count: slots, Cores: 1}, "/bin/sh", "-c", script)
	spec.Attributes.System.Environment["PATH"] = path
	spec.Attributes.System.Cwd = "/tmp"
	return spec
}

func submit(t *testing.T, h *flux.Handle, spec flux.Jobspec) flux.JobID {
	t.Helper()
	id, err := h.Submit(t.Context(), spec, flux.SubmitOptions{})
	require.NoError(t, err)
	return id
}

func TestHowJobsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h := p.open(t)
		limited := shell(1, "exec sleep 60")
		limited.SetDuration(500 * time.Millisecond)
		missing := flux.NewJobspec(flux.Slots{Count: 1, Cores: 1}, "/no/such/program")
		missing.Attributes.System.Cwd = "/tmp"
		for name, c := range map[string]struct {
			spec      flux.Jobspec
			act       func(flux.JobID) error // once it runs
			outcome   flux.Outcome
			started   bool
			code      int
			exception string
		}{
			"with success":                    {spec: shell(2, "true"), outcome: flux.Completed, started: true},
			"with the highest exit code":      {spec: shell(4, "exit $FLUX_TASK_RANK"), outcome: flux.Failed, started: true, code: 3},
			"by a signal of its own":          {spec: shell(1, "kill -KILL $$"), outcome: flux.Failed, started: true, code: 137},
			"at its time limit":               {spec: limited, outcome: flux.Timeout, started: true, code: 142, exception: "timeout"},
			"as its program is not there":     {spec: missing, outcome: flux.Failed, started: true, code: 127, exception: "exec"},
			"as no node could ever hold it":   {spec: shell(500, "true"), outcome: flux.Failed, exception: "alloc"},
			"cancelled while it runs":         {spec: shell(1, "exec sleep 60"), act: func(id flux.JobID) error { return h.Cancel(t.Context(), id, "enough") }, outcome: flux.Canceled, started: true, code: 143, exception: "cancel"},
			"by a signal that it was sent":    {spec: shell(1, "exec sleep 60"), act: func(id flux.JobID) error { return h.Kill(t.Context(), id, int(syscall.SIGUSR1)) }, outcome: flux.Failed, started: true, code: 138},
			"by an exception of another kind": {spec: shell(1, "exec sleep 60"), act: func(id flux.JobID) error { return h.Raise(t.Context(), id, "mine", 0, "so it is") }, outcome: flux.Failed, started: true, code: 143, exception: "mine"},
		} {
			t.Run(name, func(t *testing.T) {
				id := submit(t, h, c.spec)
				if c.act != nil {
					for e, err := range h.Watch(t.Context(), id, flux.LogExec) {
						require.NoError(t, err)
						if e.Name == "shell.start" {
							break
						}
					}
					require.NoError(t, c.act(id))
				}
				r, err := h.Wait(t.Context(), id)
				require.NoError(t, err)
				assert.Equal(t, c.outcome, r.Outcome, "%v", r)
				assert.Equal(t, c.started, r.Started)
				assert.Equal(t, c.code, r.Status.Code())
				if c.exception == "" {
					assert.Nil(t, r.Exception)
				} else if assert.NotNil(t, r.Exception) {
					assert.Equal(t, c.exception, r.Exception.Type)
				}
				assert.False(t, r.Submitted.IsZero())
				assert.False(t, r.Ended.IsZero())
				var listed flux.Job
				require.Eventually(t, func() bool {
					listed, err = h.Job(t.Context(), id)
					return err == nil && listed.State == flux.StateInactive
				}, 10*time.Second, 10*time.Millisecond, "the list follows the events")
				assert.Equal(t, c.outcome, listed.Result, "the list says the same")
				assert.Equal(t, c.code, listed.Status.Code())
				if c.exception != "" {
					assert.Equal(t, r.Exception, listed.Exception)
				}
			})
		}
	})
}

func TestErrorsHaveFluxsWords(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h, ctx := p.open(t), t.Context()
		ended := submit(t, h, shell(1, "true"))
		_, err := h.Wait(ctx, ended)
		require.NoError(t, err)
		for name, c := range map[string]struct {
			err   error
			errno syscall.Errno
			words string
		}{
			"cancelling a job that is over":   {h.Cancel(ctx, ended, ""), syscall.ENOENT, "job is inactive"},
			"cancelling a job that never was": {h.Cancel(ctx, 12345, ""), syscall.ENOENT, "unknown job"},
			"a service that there is not":     {h.RPC(ctx, "no-such.method", nil, nil), syscall.ENOSYS, "no-such.method"},
			"a jobspec without resources": {func() error {
				spec := shell(1, "true")
				spec.Resources = nil
				_, err := h.Submit(ctx, spec, flux.SubmitOptions{})
				return err
			}(), 0, "resources"},
			"looking up what is not there": {func() error { _, err := h.Lookup(ctx, ended, "nothing"); return err }(), syscall.ENOENT, ""},
			"watching what never comes": {func() error {
				for _, err := range h.Watch(ctx, ended, "guest.nothing") {
					return err
				}
				return nil
			}(), syscall.ENOENT, ""},
		} {
			t.Run(name, func(t *testing.T) {
				var answered *flux.Error
				require.ErrorAs(t, c.err, &answered)
				assert.NotZero(t, answered.Errno)
				if c.errno != 0 {
					assert.ErrorIs(t, c.err, c.errno)
				}
				assert.ErrorContains(t, c.err, c.words)
			})
		}
	})
}

func TestOutput(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h := p.open(t)
		id := submit(t, h, shell(2, `echo out; echo err >&2; printf '\377\n'`))
		got := map[string]string{}
		for o, err := range h.Output(t.Context(), id) {
			require.NoError(t, err)
			got[o.Stream] += string(o.Data)
		}
		assert.Equal(t, 2, strings.Count(got["stdout"], "out\n"))
		assert.Equal(t, 2, strings.Count(got["stderr"], "err\n"))
		if p.broker != nil { // real Flux writes such bytes in its own way
			assert.Equal(t, 2, strings.Count(got["stdout"], "\xff\n"))
		}

		file := filepath.Join(t.TempDir(), "out")
		spec := shell(2, "echo $FLUX_TASK_RANK; echo err >&2")
		spec.SetOutput(file)
		_, err := h.Wait(t.Context(), submit(t, h, spec))
		require.NoError(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"0", "1", "err", "err"}, strings.Fields(string(text)))
	})
}

func TestListing(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h, ctx := p.open(t), t.Context()
		name := fmt.Sprintf("listing-%d", time.Now().UnixNano())
		spec := shell(2, "exec sleep 60")
		spec.SetName(name)
		spec.SetDuration(time.Hour)
		id := submit(t, h, spec)
		for e, err := range h.Events(ctx, id) {
			require.NoError(t, err)
			if e.Name == "start" {
				break // the rest is not waited for
			}
		}
		other := submit(t, h, shell(1, "true"))
		_, err := h.Wait(ctx, other)
		require.NoError(t, err)
		list := func(c flux.Constraint) []flux.JobID {
			jobs, err := h.Jobs(ctx, flux.Query{Constraint: c})
			require.NoError(t, err)
			ids := []flux.JobID{}
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			return ids
		}
		require.Eventually(t, func() bool { return len(list(flux.And(flux.Names(name), flux.InStates(flux.StateRun)))) == 1 },
			10*time.Second, 10*time.Millisecond)
		mine := flux.Users(os.Getuid())
		assert.Equal(t, []flux.JobID{id}, list(flux.And(mine, flux.Names(name))))
		assert.Empty(t, list(flux.And(flux.Names(name), flux.InStates(flux.StatesPending|flux.StateInactive))))
		assert.Empty(t, list(flux.Users(os.Getuid()+1)))
		assert.Contains(t, list(flux.And(mine, flux.Not(flux.Names(name)))), other)
		assert.Contains(t, list(flux.Or(flux.Names(name), flux.InResults(flux.Completed))), other)
		jobs, err := h.Jobs(ctx, flux.Query{Constraint: flux.Names(name), Attributes: []string{"state"}})
		require.NoError(t, err)
		assert.Equal(t, []flux.Job{{ID: id, State: flux.StateRun}}, jobs, "what was not asked for is not told")
		job, err := h.Job(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, name, job.Name)
		assert.Equal(t, []int{2, 2}, []int{job.Tasks, job.Cores})
		assert.Equal(t, time.Hour, job.Duration)
		assert.InDelta(t, time.Hour.Seconds(), job.Expiration.Sub(job.Run).Seconds(), 5)
		found, err := h.Lookup(ctx, id, "R", "jobspec", "eventlog")
		require.NoError(t, err)
		assert.Contains(t, found["eventlog"], `"alloc"`)
		assert.Contains(t, found["jobspec"], name)
		sched, err := h.SchedStatus(ctx)
		require.NoError(t, err)
		cores := 0
		for _, n := range sched.Allocated.Nodes {
			cores += len(n.Cores)
		}
		assert.Equal(t, 2, cores)
		require.NoError(t, h.Cancel(ctx, id, "the test is over"))
		_, err = h.Wait(ctx, id)
		require.NoError(t, err)
	})
}

func TestAttributesAndUrgency(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h, ctx := p.open(t), t.Context()
		version, err := h.Attribute(ctx, "version")
		require.NoError(t, err)
		assert.NotEmpty(t, version)
		assert.NotEmpty(t, h.LibraryVersion())
		id, err := h.Submit(ctx, shell(1, "true"), flux.SubmitOptions{Hold: true})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			job, err := h.Job(ctx, id)
			return err == nil && job.State == flux.StateSched
		}, 10*time.Second, 10*time.Millisecond)
		require.NoError(t, h.SetUrgency(ctx, id, flux.UrgencyDefault))
		r, err := h.Wait(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, flux.Completed, r.Outcome)
	})
}

func TestResourceStatus(t *testing.T) {
	b := startBroker(t)
	h := place{library: double(t), uri: b.URI()}.open(t)
	b.Drain("n0", "broken fan")
	b.SetDown("n1", true)
	s, err := h.ResourceStatus(t.Context())
	require.NoError(t, err)
	assert.Equal(t, flux.ResourceStatus{
		All: flux.ResourceSet{Nodes: []flux.Node{
			{Rank: 0, Host: "n0", Cores: []int{0, 1}, GPUs: []int{0, 1}, Properties: []string{"big"}},
			{Rank: 1, Host: "n1", Cores: []int{0, 1}},
		}},
		Online: []int{0}, Offline: []int{1},
		Drained: []flux.Drain{{Ranks: []int{0}, Reason: "broken fan"}},
	}, s)
}

func TestManyGoroutinesAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h := p.open(t)
		var all sync.WaitGroup
		for worker := range 24 {
			all.Go(func() {
				for range 4 {
					id, err := h.Submit(t.Context(), shell(1, fmt.Sprintf("echo %d; exit %d", worker, worker%3)), flux.SubmitOptions{})
					if !assert.NoError(t, err) {
						return
					}
					r, err := h.Wait(t.Context(), id)
					assert.NoError(t, err)
					assert.Equal(t, worker%3, r.Status.Code())
					_, err = h.Jobs(t.Context(), flux.Query{Max: 10, Attributes: []string{"state"}})
					assert.NoError(t, err)
				}
			})
			all.Go(func() { // calls that are given up at any time
				for i := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*worker)*50*time.Microsecond)
					for _, err := range h.Events(ctx, flux.JobID(1<<24)) {
						if err != nil {
							break
						}
					}
					_, _ = h.Attribute(ctx, "size")
					cancel()
				}
			})
		}
		all.Wait()
	})
}

func TestSubmitAllKeepsTheOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		h := p.open(t)
		var specs []flux.Jobspec
		for i := range 50 {
			specs = append(specs, shell(1, fmt.Sprintf("exit %d", i)))
		}
		specs[7].Resources = nil
		answers := h.SubmitAll(t.Context(), specs, flux.SubmitOptions{})
		require.Len(t, answers, len(specs))
		for i, a := range answers {
			if i == 7 {
				assert.Error(t, a.Err)
				continue
			}
			require.NoError(t, a.Err)
			r, err := h.Wait(t.Context(), a.ID)
			require.NoError(t, err)
			assert.Equal(t, i, r.Status.Code())
		}
	})
}
