package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/provider/spool"
)

// A token that is not taken over is not sent again before it has nearly expired.
func TestAnUpdateThatFailsIsTriedAgain(t *testing.T) {
	key, err := spool.NewKey()
	require.NoError(t, err)
	now := time.Now()
	volumes := func(text string) []spool.Volume {
		return []spool.Volume{
			{Name: "first", Files: []spool.File{{Path: "f", Mode: 0o644, Data: []byte(text)}}},
			{Name: "second", Files: []spool.File{{Path: "f", Mode: 0o644, Data: []byte(text)}}},
		}
	}
	dirs := podDirs{memory: t.TempDir(), disk: t.TempDir()}
	files, err := layOut(dirs, volumes("old"), now)
	require.NoError(t, err)
	p := &pod{orders: spool.PodOrders{UID: "u"}, files: files, logger: slog.New(slog.DiscardHandler), life: lifecycle.NewPod(spool.PodOrders{})}
	sealed, err := spool.Seal(key.Recipient(), spool.PodUpdate{UID: "u", Volumes: volumes("new")})
	require.NoError(t, err)
	s := &slot{key: key, desired: spool.Desired{PodUID: "u", Recipient: key.Recipient(), Update: sealed}}
	holds := func(volume string) string {
		data, err := os.ReadFile(filepath.Join(dirs.volume(volume, true), "f"))
		require.NoError(t, err)
		return string(data)
	}
	// A file in its place stands for a filesystem that is full.
	first, aside := dirs.volume("first", true), filepath.Join(dirs.disk, "aside")
	require.NoError(t, os.Rename(first, aside))
	require.NoError(t, os.WriteFile(first, nil, 0o600))
	s.takeUpdate(p, now)
	assert.Equal(t, "new", holds("second"), "one that fails does not keep back the others")
	assert.Equal(t, now.Add(updateAgain), p.update.again)

	running := s.desired
	s.desired.Update = nil
	s.takeUpdate(p, now)
	assert.Zero(t, p.update.again, "a pod that is to stop is not woken for it")
	s.desired = running
	p.update = lastUpdate{}
	s.takeUpdate(p, now)

	require.NoError(t, os.Remove(first))
	require.NoError(t, os.Rename(aside, first))
	s.takeUpdate(p, now.Add(updateAgain-time.Second))
	assert.Equal(t, "old", holds("first"), "not yet")
	s.takeUpdate(p, now.Add(updateAgain))
	assert.Equal(t, "new", holds("first"))
	assert.Zero(t, p.update.again)
}
