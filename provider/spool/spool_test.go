package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func TestAnAllocationAppearsAsAWhole(t *testing.T) {
	root := spool.Root(t.TempDir())
	gang := spool.Gang{Allocation: "pi-1", Node: "hpc", Slots: make([]spool.Slot, 2)}
	require.NoError(t, root.Create(gang))
	assert.Error(t, root.Create(gang), "a name is never used twice")
	dir := root.Dir("pi-1")
	assert.DirExists(t, dir.Slot(1))
	assert.FileExists(t, dir.Gang())
	info, err := os.Stat(string(dir))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, root.Sweep("hpc"))
	entries, err := os.ReadDir(root.Gangs())
	require.NoError(t, err)
	assert.Len(t, entries, 1)

	require.NoError(t, dir.Remove())
	assert.NoDirExists(t, string(dir))
}

func TestReadFollowsNoLinkAndWaitsForNoPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(`{}`), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, name := range []string{"link", "pipe"} {
		_, err := spool.Read(filepath.Join(dir, name), &spool.Gang{})
		assert.Error(t, err, name)
	}
}

// The job's user writes these files.
func TestReportsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	long := strings.Repeat("x", 2<<20)
	for sentence, tc := range map[string]struct {
		written, into any
		fails         string
	}{
		"a status":             {spool.Status{Pod: &spool.PodStatus{Message: "m"}}, &spool.Status{}, ""},
		"a huge one":           {spool.Status{Pod: &spool.PodStatus{Message: long}}, &spool.Status{}, "no plain file"},
		"one of many":          {spool.Status{Pod: &spool.PodStatus{Containers: make([]corev1.ContainerStatus, 2000)}}, &spool.Status{}, "more than 1000 items"},
		"many Events":          {spool.Status{Pod: &spool.PodStatus{Events: make([]spool.Event, 2000)}}, &spool.Status{}, "more than 1000 items"},
		"a huge result":        {spool.Result{Message: long}, &spool.Result{}, "no plain file"},
		"a huge claim":         {spool.Claim{Host: long}, &spool.Claim{}, "no plain file"},
		"orders may be larger": {spool.Desired{Orders: make([]byte, 3<<20)}, &spool.Desired{}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			require.NoError(t, spool.Write(path, tc.written))
			ok, err := spool.Read(path, tc.into)
			assert.Equal(t, tc.fails == "", ok)
			if tc.fails != "" {
				assert.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
		})
	}
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
	root := spool.Root(t.TempDir())
	require.NoError(t, root.Create(spool.Gang{Allocation: "pi-1"}))
	dir := root.Dir("pi-1")
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
