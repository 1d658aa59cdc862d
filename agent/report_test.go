package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

// The log of a job is on the filesystem that is full, as a rule.
func TestWhatKeepsAStatusFromBeingWrittenIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "slot")
	r := newReporter(filepath.Join(dir, "status.json"), slog.New(slog.NewTextHandler(&log, nil)))
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, r.run(t.Context())) })
	for n := range 5 { // a newer one is tried at once
		r.report(spool.Status{Version: n})
		require.Eventually(t, func() bool { return len(r.pending) == 0 }, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.close()
	running.Wait()
	assert.Equal(t, 1, strings.Count(log.String(), "writing the slot's status"), log.String())
	var written spool.Status
	found, err := spool.Read(r.path, &written)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, 4, written.Version)
}
