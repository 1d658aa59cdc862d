package local

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

// toldOf has a log in which it is seen when something is told.
func toldOf(t *testing.T, text string) (*slog.Logger, func()) {
	told := make(chan struct{}, 100)
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), writerFunc(func(line []byte) {
		if strings.Contains(string(line), text) {
			told <- struct{}{}
		}
	})), nil))
	return log, func() {
		t.Helper()
		select {
		case <-told:
		case <-time.After(20 * time.Second):
			require.Fail(t, "it is not told: "+text)
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// onSmallSpool gives the cluster a small filesystem for its gangs, and returns what fills it.
func onSmallSpool(t *testing.T, c *cluster) (fill func() (empty func())) {
	t.Helper()
	gangs := spool.Root(c.spool).Gangs()
	require.NoError(t, os.MkdirAll(gangs, 0o700))
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", gangs).CombinedOutput(); err != nil {
		require.Fail(t, "this test makes a small filesystem, for which it needs root", "%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", gangs).Run() })
	ballast := filepath.Join(gangs, ".ballast")
	return func() func() {
		require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 2<<20), 0o600), syscall.ENOSPC)
		return func() { require.NoError(t, os.Remove(ballast)) }
	}
}

func TestAFullSpoolIsWaitedFor(t *testing.T) {
	log, told := toldOf(t, "it is tried again")
	c := smallCluster(t, func(c *Config) { c.Log = log })
	fill := onSmallSpool(t, c)
	r := c.request(t, "gang", group(1, 1, 0, 0))

	empty := fill()
	id := c.submit(t, r)
	told() // there is no room for the claim
	assert.Equal(t, wlm.PhaseRunning, c.job(t, id).Phase)
	empty()
	env(t, r, 0)

	empty = fill()
	write(t, r, "release", "")
	told() // there is no room for the result
	assert.Equal(t, wlm.PhaseRunning, c.job(t, id).Phase)
	empty()
	assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
	assert.Zero(t, result(t, r).ExitCode)
}

// The removal of what was cancelled may be what makes room.
func TestWhoIsCancelledDoesNotWaitForAFullSpool(t *testing.T) {
	log, told := toldOf(t, "it is tried again")
	c := smallCluster(t, func(c *Config) { c.Log = log })
	fill := onSmallSpool(t, c)
	waits, ends := c.request(t, "waits", group(1, 1, 0, 0)), c.request(t, "ends", group(1, 1, 0, 0))

	empty := fill()
	id := c.submit(t, waits)
	told() // there is no room for the claim
	require.NoError(t, c.Cancel(t.Context(), "", id))
	assert.Equal(t, wlm.OutcomeCancelled, c.waitFor(t, id, wlm.PhaseEnded).Outcome)
	empty()

	id = c.submit(t, ends)
	env(t, ends, 0)
	empty = fill()
	defer empty()
	write(t, ends, "release", "")
	told() // there is no room for the result
	require.NoError(t, c.Cancel(t.Context(), "", id))
	assert.Equal(t, wlm.OutcomeCompleted, c.waitFor(t, id, wlm.PhaseEnded).Outcome, "it had ended before")
}

func TestAFullSpoolIsNotWaitedForForEver(t *testing.T) {
	log, told := toldOf(t, "it is tried again")
	c := smallCluster(t, func(c *Config) { c.Log = log })
	fill := onSmallSpool(t, c)
	r := c.request(t, "gang", group(1, 1, 0, 0))
	defer fill()()
	id := c.submit(t, r)
	told()
	c.mu.Lock()
	c.now = func() time.Time { return time.Now().Add(spool.FullPatience) }
	c.mu.Unlock()
	job := c.waitFor(t, id, wlm.PhaseEnded)
	assert.Equal(t, wlm.OutcomeFailed, job.Outcome)
	assert.Contains(t, job.Reason, "no space left on device")
}
