package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

func TestCreateTellsWhetherTheAllocationIsNew(t *testing.T) {
	dir := spool.Root(t.TempDir()).Dir("pi.1")
	isNew, err := dir.Create(2)
	require.NoError(t, err)
	assert.True(t, isNew)
	isNew, err = dir.Create(2)
	require.NoError(t, err)
	assert.False(t, isNew)
	assert.DirExists(t, dir.Slot(1))
	info, err := os.Stat(string(dir))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestWriteReplacesTheWholeFileAndLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "gang.json")
	require.NoError(t, spool.Write(path, spool.Gang{Allocation: "a"}))
	require.NoError(t, spool.Write(path, spool.Gang{Allocation: "b"}))
	var g spool.Gang
	ok, err := spool.Read(path, &g)
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "b", g.Allocation)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	ok, err = spool.Read(filepath.Join(dir, "absent"), &g)
	require.NoError(t, err)
	assert.False(t, ok)
}

func TestOnlyOneClaimIsEverTaken(t *testing.T) {
	dir := spool.Root(t.TempDir()).Dir("pi.1")
	_, err := dir.Create(1)
	require.NoError(t, err)
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			err := dir.TakeClaim(spool.Claim{JobID: "7", Host: "hpc1"})
			if err == nil {
				taken.Add(1)
				return
			}
			assert.True(t, errors.Is(err, spool.ErrClaimed))
			assert.ErrorContains(t, err, "job 7 on hpc1")
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, taken.Load())
}

func TestSealedOrdersAreReadableByTheirAgentOnly(t *testing.T) {
	mine, err := spool.NewKey()
	require.NoError(t, err)
	other, err := spool.NewKey()
	require.NoError(t, err)

	orders := spool.PodOrders{Name: "pi", SSH: spool.SSH{HostKey: []byte("secret")}}
	sealed, err := spool.Seal(mine.Recipient(), orders)
	require.NoError(t, err)
	assert.NotContains(t, string(sealed), "secret")

	var got spool.PodOrders
	require.NoError(t, mine.Open(sealed, &got))
	assert.Equal(t, orders, got)
	assert.Error(t, other.Open(sealed, &got))
}
