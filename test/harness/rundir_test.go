package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWhatKilledRunsHaveLeftIsClearedAway(t *testing.T) {
	r := runs{base: t.TempDir(), memory: t.TempDir()}
	run := func(kind string, pid int) (dir, memory string) {
		dir = filepath.Join(r.base, kind, strconv.Itoa(pid))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node"), 0o755))
		require.NoError(t, os.MkdirAll(r.memoryOf(dir), 0o755))
		return dir, r.memoryOf(dir)
	}
	dead, deadMemory := run("scale", deadPID(t))
	living, livingMemory := run("scale", os.Getppid())
	before, _ := run("e2e", os.Getpid()) // this process has begun nothing
	records, _ := run("chaos", deadPID(t))
	named := filepath.Join(r.base, "scale", "mine")
	require.NoError(t, os.Mkdir(named, 0o755))
	left := startBelow(t, filepath.Join(dead, "node"))
	leftInMemory := startBelow(t, deadMemory)
	runs := startBelow(t, living)

	require.NoError(t, r.sweep(t.Context(), "bench", "scale", "e2e"))
	for _, gone := range []string{dead, deadMemory, before} {
		assert.NoDirExists(t, gone)
	}
	<-left
	<-leftInMemory
	for _, stays := range []string{living, livingMemory, records, named} {
		assert.DirExists(t, stays)
	}
	select {
	case <-runs:
		t.Error("what is not of a killed run is left alone")
	default:
	}
}

func TestWhatIsMountedInAKilledRunIsNotRemoved(t *testing.T) {
	require.Zero(t, os.Geteuid(), "only root can mount")
	r := runs{base: t.TempDir(), memory: t.TempDir()}
	foreign := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	dir := filepath.Join(r.base, "e2e", strconv.Itoa(deadPID(t)))
	outer := filepath.Join(dir, "outer")
	require.NoError(t, os.MkdirAll(outer, 0o755))
	require.NoError(t, unix.Mount("tmpfs", outer, "tmpfs", 0, ""))
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	require.NoError(t, unix.Mount(filepath.Dir(foreign), inner, "", unix.MS_BIND, ""))

	require.NoError(t, r.sweep(t.Context(), "e2e"))
	assert.NoDirExists(t, dir)
	assert.FileExists(t, foreign)
}

// deadPID is the number of a process that has ended.
func deadPID(t *testing.T) int {
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	return cmd.Process.Pid
}

// startBelow runs a program from a directory; what is returned is closed at its end.
func startBelow(t *testing.T, dir string) <-chan struct{} {
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	program := filepath.Join(dir, "program")
	require.NoError(t, install(sleep, program))
	cmd := exec.Command(program, "300")
	require.NoError(t, startProgram(cmd))
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	return ended
}
