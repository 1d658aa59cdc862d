package local

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// cluster is a manager at work on a state directory, beside a spool.
type cluster struct {
	*Manager
	cfg   Config
	spool string
	stop  func()
}

func smallCluster(t *testing.T, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{spool: t.TempDir()}
	c.cfg = Config{
		StateDir: filepath.Join(t.TempDir(), "state"),
		Nodes:    []NodeSpec{{Name: "n1", CPUs: 4, MemoryMiB: 4096, GPUs: 4}, {Name: "n2", CPUs: 4, MemoryMiB: 4096, GPUs: 4}},
		Grace:    time.Second,
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, f := range change {
		f(&c.cfg)
	}
	require.NoError(t, os.WriteFile(c.agent(), []byte(fakeAgent), 0o755))
	c.start(t)
	t.Cleanup(func() { // whatever the test has left running
		jobs, err := c.List(context.Background())
		assert.NoError(t, err)
		for _, j := range jobs {
			assert.NoError(t, c.Cancel(context.Background(), "", j.ID))
		}
		assert.Eventually(t, func() bool {
			jobs, err := c.List(context.Background())
			return err == nil && !slices.ContainsFunc(jobs, func(j wlm.Job) bool { return j.Phase != wlm.PhaseEnded })
		}, 10*time.Second, 10*time.Millisecond)
		c.stop()
	})
	return c
}

func (c *cluster) agent() string { return filepath.Join(c.spool, "agent") }

// start starts a manager on the cluster's state, as after the death of another.
func (c *cluster) start(t *testing.T, change ...func(*Manager)) {
	t.Helper()
	m, err := New(c.cfg)
	require.NoError(t, err)
	for _, f := range change {
		f(m)
	}
	c.Manager = m
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
		assert.NoError(t, m.Close())
	})
}

func (c *cluster) request(t *testing.T, name string, groups ...translate.TaskGroup) translate.Request {
	t.Helper()
	dir := spool.Root(c.spool).Dir(name)
	gang := spool.Gang{Version: spool.Version, Allocation: name}
	for _, g := range groups {
		for range g.Tasks {
			gang.Tasks = append(gang.Tasks, []int{len(gang.Slots)})
			gang.Slots = append(gang.Slots, spool.Slot{})
		}
	}
	err := dir.Create(len(gang.Slots))
	require.NoError(t, err)
	require.NoError(t, spool.Write(dir.Gang(), gang))
	return translate.Request{Name: name, Groups: groups, Agent: c.agent(), Dir: string(dir)}
}

func (c *cluster) submit(t *testing.T, r translate.Request) string {
	t.Helper()
	id, err := c.Submit(t.Context(), r)
	require.NoError(t, err)
	return id
}

func (c *cluster) job(t *testing.T, id string) wlm.Job {
	t.Helper()
	jobs, err := c.List(t.Context())
	require.NoError(t, err)
	i := slices.IndexFunc(jobs, func(j wlm.Job) bool { return j.ID == id })
	require.GreaterOrEqual(t, i, 0, "no job %s", id)
	return jobs[i]
}

func (c *cluster) waitFor(t *testing.T, id string, phase wlm.Phase) wlm.Job {
	t.Helper()
	require.Eventually(t, func() bool { return c.job(t, id).Phase == phase }, 20*time.Second, 5*time.Millisecond,
		"job %s does not become %s", id, phase)
	return c.job(t, id)
}

func write(t *testing.T, r translate.Request, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o600))
}

// lines waits for n lines in a file of the gang's directory.
func lines(t *testing.T, r translate.Request, name string, n int) []string {
	t.Helper()
	var got []string
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(r.Dir, name))
		got = strings.Fields(string(data))
		return err == nil && len(got) >= n
	}, 20*time.Second, 5*time.Millisecond, "%s has not %d lines", name, n)
	return got
}

// env waits for the environment of a task's agent.
func env(t *testing.T, r translate.Request, task int) string {
	t.Helper()
	path := filepath.Join(r.Dir, fmt.Sprintf("env.%d", task))
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil }, 20*time.Second, 5*time.Millisecond)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func result(t *testing.T, r translate.Request) spool.Result {
	t.Helper()
	var res spool.Result
	found, err := spool.Read(spool.Dir(r.Dir).Result(), &res)
	require.NoError(t, err)
	require.True(t, found)
	return res
}
