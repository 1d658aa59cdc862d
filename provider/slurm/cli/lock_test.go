package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

func isRejected(err error) bool {
	var rejected *wlm.RejectedError
	return errors.As(err, &rejected)
}

func lockIsFree(t *testing.T, path string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	f, err := spool.Lock(ctx, path, nil)
	if err != nil {
		assert.ErrorContains(t, err, "still runs")
		return false
	}
	require.NoError(t, f.Close())
	return true
}

func TestAnSbatchThatOutlivesItsProviderKeepsTheLock(t *testing.T) {
	dir := t.TempDir()
	path, goOn := filepath.Join(dir, "lock"), filepath.Join(dir, "go-on")
	require.NoError(t, exec.Command("mkfifo", goOn).Run())
	lock, err := spool.Lock(t.Context(), path, nil)
	require.NoError(t, err)
	assert.False(t, lockIsFree(t, path), "one provider at a time")

	// sbatch hangs, as on a controller that does not answer.
	m := newManager(t, Config{Asker: ordinary{site.Local{Lock: lock}}, Bin: fakeTools(t, map[string]string{
		"sbatch": "echo >" + filepath.Join(dir, "started") + "; read line <" + goOn + "; echo 7",
	})})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := m.Submit(ctx, request(dir))
		done <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "started"))
		return err == nil
	}, 5*time.Second, 5*time.Millisecond)
	cancel()
	err = <-done
	assert.ErrorIs(t, err, context.Canceled)
	assert.False(t, isRejected(err), "the job may exist")

	// The provider's own descriptor goes, as with its death; sbatch's stays.
	require.NoError(t, lock.Close())
	assert.False(t, lockIsFree(t, path))
	require.NoError(t, os.WriteFile(goOn, []byte("\n"), 0))
	assert.Eventually(t, func() bool { return lockIsFree(t, path) }, 5*time.Second, 10*time.Millisecond)
}
