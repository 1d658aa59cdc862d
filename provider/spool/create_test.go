package spool

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatCannotBeMadeLeavesNothing(t *testing.T) {
	root := Root(t.TempDir())
	g := Gang{Version: Version, Allocation: "pi-1", Node: "hpc", Slots: make([]Slot, 3)}
	require.NoError(t, root.Create(g))
	require.Error(t, root.Create(g), "its name is taken")
	g.Allocation = "pi-2"
	blocked := root.Dir(unfinished(g.Node) + g.Allocation).Gang()
	require.NoError(t, os.MkdirAll(blocked+"/full", 0o700)) // no file can replace it
	require.Error(t, root.Create(g))
	entries, err := os.ReadDir(root.Gangs())
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, "pi-1", entries[0].Name())
}

func TestWhereThereIsNoRoomForANameADirectoryIsRemovedInItsPlace(t *testing.T) {
	root := Root(t.TempDir())
	g := Gang{Version: Version, Allocation: "pi-1", Node: "hpc", Slots: make([]Slot, 3)}
	require.NoError(t, root.Create(g))
	dir := root.Dir(g.Allocation)
	noRoom := func(from, to string) error {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EDQUOT}
	}
	require.NoError(t, dir.remove(noRoom))
	assert.NoDirExists(t, string(dir))
	require.NoError(t, dir.remove(noRoom), "it has gone already")

	require.NoError(t, root.Create(g))
	tries := 0
	require.NoError(t, dir.remove(func(from, to string) error {
		if tries++; tries == 1 {
			return noRoom(from, to)
		}
		return os.Rename(from, to)
	}))
	assert.Equal(t, 2, tries, "its gang.json made room for the name")
	assert.NoDirExists(t, string(dir))

	require.NoError(t, root.Create(g))
	denied := func(from, to string) error {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EACCES}
	}
	require.ErrorIs(t, dir.remove(denied), syscall.EACCES)
	assert.FileExists(t, dir.Gang(), "otherwise it is left as it is")
}
