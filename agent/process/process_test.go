package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// start runs a shell script and returns its process and its output.
func start(t *testing.T, table *process.Table, s process.Spec, script string) (*process.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	s.Path, s.Argv, s.Files = "/bin/sh", []string{"sh", "-c", script}, []*os.File{null, w, w}
	p, err := table.Start(s)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, null.Close())
	return p, r
}

func newTable(t *testing.T) *process.Table {
	t.Helper()
	table, err := process.NewTable()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { table.Run(ctx) })
	// Two tables at once would reap each other's processes.
	t.Cleanup(func() { stop(); running.Wait() })
	return table
}

func ended(t *testing.T, p *process.Process) unix.WaitStatus {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the process does not end")
	}
	return p.Status()
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

// readPID reads the number that a script prints.
func readPID(t *testing.T, r *os.File) int {
	t.Helper()
	buf := make([]byte, 32)
	n, err := r.Read(buf)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	require.NoError(t, err)
	return pid
}

func eventuallyDead(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, 5*time.Second, 5*time.Millisecond)
}

func TestExitCode(t *testing.T) {
	table := newTable(t)
	for script, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -TERM $$": 143, "kill -KILL $$": 137,
	} {
		p, _ := start(t, table, process.Spec{}, script)
		assert.Equal(t, want, process.ExitCode(ended(t, p)), script)
	}
}

func TestManyProcessesAreAllReaped(t *testing.T) {
	table := newTable(t)
	for i := range 50 {
		p, _ := start(t, table, process.Spec{}, fmt.Sprintf("exit %d", i))
		assert.Equal(t, i, process.ExitCode(ended(t, p)))
		eventuallyDead(t, p.PID())
	}
}

func TestTheGroupDiesWithItsLeaderOnlyIfAskedTo(t *testing.T) {
	table := newTable(t)
	p, out := start(t, table, process.Spec{KillGroup: true}, "sleep 100 & echo $!")
	pid := readPID(t, out)
	ended(t, p)
	eventuallyDead(t, pid)

	p, out = start(t, table, process.Spec{}, "sleep 100 & echo $!")
	pid = readPID(t, out)
	ended(t, p)
	assert.True(t, alive(pid))
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	eventuallyDead(t, pid) // as an orphan it is reaped too
}

func TestSignalReachesTheWholeGroup(t *testing.T) {
	table := newTable(t)
	p, out := start(t, table, process.Spec{}, "sleep 100 & echo $!; wait")
	pid := readPID(t, out)
	require.NoError(t, p.Signal(unix.SIGTERM))
	assert.Equal(t, 143, process.ExitCode(ended(t, p)))
	eventuallyDead(t, pid)
	require.NoError(t, p.Signal(unix.SIGTERM), "the end of a process is no error")
}

func TestSweepFindsWhatLeftTheGroup(t *testing.T) {
	table := newTable(t)
	env := []string{"PATH=/usr/bin:/bin", "COOKIE=a/0"}
	other, _ := start(t, table, process.Spec{Env: []string{"PATH=/usr/bin:/bin", "COOKIE=b/0"}}, "sleep 100")
	p, out := start(t, table, process.Spec{Env: env}, "setsid sleep 100 </dev/null >/dev/null 2>&1 & echo $!")
	pid := readPID(t, out)
	ended(t, p)
	assert.True(t, alive(pid))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, process.Sweep(ctx, process.Mark{Prefix: "COOKIE=a/"}))
	eventuallyDead(t, pid)
	assert.True(t, alive(other.PID()))
	require.NoError(t, other.Signal(unix.SIGKILL))
	ended(t, other)
}

func TestSweepByAWholeEntryLeavesLongerOnesAlone(t *testing.T) {
	table := newTable(t)
	other, _ := start(t, table, process.Spec{Env: []string{"PATH=/usr/bin:/bin", "COOKIE=a-0-0"}}, "sleep 100")
	p, _ := start(t, table, process.Spec{Env: []string{"PATH=/usr/bin:/bin", "COOKIE=a-0"}}, "sleep 100")
	require.NoError(t, process.Sweep(t.Context(), process.Mark{Entry: "COOKIE=a-0"}))
	assert.Equal(t, 137, process.ExitCode(ended(t, p)))
	assert.True(t, alive(other.PID()))
	require.NoError(t, process.SweepDescendants(t.Context()))
	assert.Equal(t, 137, process.ExitCode(ended(t, other)))
}

func TestSweepByNamespaceFindsWhatHasAnotherEnvironment(t *testing.T) {
	table := newTable(t)
	var held process.Namespaces
	p, out := start(t, table, process.Spec{Env: os.Environ(), Namespaces: unix.CLONE_NEWUSER | unix.CLONE_NEWNS},
		"env -i setsid sh -c 'echo $$; exec sleep 100' & exec sleep 100")
	held.Hold(p)
	pid := readPID(t, out)
	require.Len(t, held.Of(p), 1)
	require.NoError(t, p.Signal(unix.SIGKILL))
	ended(t, p)
	require.NoError(t, held.ReleaseUnused())
	require.Len(t, held.All(), 1, "something still runs there")
	require.NoError(t, process.Sweep(t.Context(), process.Mark{Namespaces: held.All()}))
	eventuallyDead(t, pid)
	require.NoError(t, held.ReleaseUnused())
	assert.Empty(t, held.All())
}

func TestANamespaceThatAProcessHasComeIntoSinceIsHeld(t *testing.T) {
	table := newTable(t)
	var held process.Namespaces
	// A runtime makes it, and is not in it itself.
	p, out := start(t, table, process.Spec{Env: os.Environ()}, "unshare --user --mount sh -c 'env -i setsid sh -c \"echo \\$\\$; exec sleep 100\" & exec sleep 100'")
	held.Hold(p)
	require.Empty(t, held.Of(p), "it is not there yet")
	pid := readPID(t, out)
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	require.NoError(t, err)
	require.NoError(t, p.Signal(unix.SIGKILL))
	ended(t, p)
	held.HoldFile(p, file)
	require.Len(t, held.Of(p), 1, "though the process has ended: its descendants have not")
	require.NoError(t, process.Sweep(t.Context(), process.Mark{Namespaces: held.Of(p)}))
	eventuallyDead(t, pid)
	require.NoError(t, held.ReleaseUnused())
	assert.Empty(t, held.All())
}

func TestTheOwnNamespaceIsNeverHeld(t *testing.T) {
	table := newTable(t)
	var held process.Namespaces
	p, _ := start(t, table, process.Spec{Env: os.Environ()}, "sleep 100")
	held.Hold(p)
	assert.Empty(t, held.All())
	require.NoError(t, p.Signal(unix.SIGKILL))
	ended(t, p)
}

func TestCopyOutputEndsThoughADaemonWritesOn(t *testing.T) {
	table := newTable(t)
	p, out := start(t, table, process.Spec{Env: os.Environ()}, "seq 1 1000; setsid sh -c 'while :; do echo x || exit; sleep 0.01; done' & exit 0")
	var got bytes.Buffer
	began := time.Now()
	require.NoError(t, process.CopyOutput(&got, out, p.Done(), 100*time.Millisecond))
	assert.Less(t, time.Since(began), 4*time.Second)
	assert.True(t, strings.HasPrefix(got.String(), sequence(1000)))
}

func TestCopyOutput(t *testing.T) {
	const quiet = 100 * time.Millisecond
	for name, tc := range map[string]struct{ script, want string }{
		"all that was written":               {"seq 1 20000", sequence(20000)},
		"a daemon that keeps the pipe open":  {"echo out; setsid sleep 5 & exit 0", "out\n"},
		"nothing":                            {"exit 0", ""},
		"what a child wrote just afterwards": {"(sleep 0.02; echo late) & echo first", "first\nlate\n"},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t)
			p, out := start(t, table, process.Spec{Env: os.Environ()}, tc.script)
			var got bytes.Buffer
			began := time.Now()
			require.NoError(t, process.CopyOutput(&got, out, p.Done(), quiet))
			assert.Equal(t, tc.want, got.String())
			assert.Less(t, time.Since(began), 4*time.Second)
		})
	}
}

func TestCopyOutputLosesNothingToASlowReader(t *testing.T) {
	table := newTable(t)
	p, out := start(t, table, process.Spec{Env: os.Environ()}, "seq 1 10000; setsid sleep 5 & exit 0")
	got := slowBuffer{pause: 150 * time.Millisecond}
	require.NoError(t, process.CopyOutput(&got, out, p.Done(), 50*time.Millisecond))
	assert.Equal(t, sequence(10000), got.String())
}

// The time to read may be over when a busy machine comes to reading.
func TestCopyOutputLosesNothingToALateRead(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close() //nolint:errcheck // a daemon keeps it open
	_, err = w.WriteString("out\n")
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(time.Unix(1, 0)))
	ended := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { close(ended) })
	var got bytes.Buffer
	require.NoError(t, process.CopyOutput(&got, r, ended, 50*time.Millisecond))
	assert.Equal(t, "out\n", got.String())
}

type slowBuffer struct {
	bytes.Buffer
	pause time.Duration
}

func (b *slowBuffer) Write(p []byte) (int, error) {
	time.Sleep(b.pause)
	return b.Buffer.Write(p)
}

func sequence(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}
