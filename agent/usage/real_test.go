package usage_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/usage"
	"github.com/gangline/gangline/provider/spool"
)

const variable = "USAGE_TEST_MARK"

// bench starts real processes and measures them.
type bench struct {
	*testing.T
	table *process.Table
	meter *usage.Meter
	null  *os.File
	times chan time.Duration // of what has been reaped
}

func newBench(t *testing.T) *bench {
	t.Helper()
	table, err := process.NewTable()
	require.NoError(t, err)
	b := &bench{T: t, table: table, meter: usage.NewMeter(variable), times: make(chan time.Duration, 100)}
	table.OnReap(func(pid int, started bool, used time.Duration) {
		select {
		case b.times <- used:
		default: // the reaper must not wait
		}
		b.meter.Reaped(pid, started, used)
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // containers end after the test
	var running sync.WaitGroup
	running.Go(func() { table.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.null.Close() })
	return b
}

func (b *bench) start(script string, env ...string) *process.Process {
	b.Helper()
	p, err := b.table.Start(process.Spec{
		Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Files: []*os.File{b.null, b.null, b.null},
		Env: append(env, "PATH=/usr/bin:/bin"), KillGroup: true,
	})
	require.NoError(b, err)
	return p
}

// run starts a container, and ends it with the test.
func (b *bench) run(script string) {
	b.Helper()
	p := b.start(script, variable+"=pod-main-0")
	end := b.meter.Begin(usage.Run{Slot: 2, Container: "main", Mark: "pod-main-0", PID: p.PID()})
	b.Cleanup(func() {
		end()
		_ = p.Signal(unix.SIGKILL)
		<-p.Done()
	})
}

// until measures until the container is as expected.
func (b *bench) until(is func(spool.ContainerUsage) bool) spool.ContainerUsage {
	b.Helper()
	var last spool.ContainerUsage
	require.Eventually(b, func() bool {
		slots, err := b.meter.Sample()
		require.NoError(b, err)
		if len(slots[2].Containers) == 0 {
			return false
		}
		c := slots[2].Containers[0]
		assert.GreaterOrEqual(b, c.CPU, last.CPU, "time does not go back")
		last = c
		return is(c)
	}, 60*time.Second, 50*time.Millisecond, "last seen: %+v", &last)
	return last
}

// TestRealProcesses measures some that live, some that have ended, an orphan, and
// one that has lost its mark.
func TestRealProcesses(t *testing.T) {
	b := newBench(t)
	const spin = `spin() { i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; }; `
	<-b.start(spin + "spin").Done() // to know how much that is
	once := <-b.times
	b.run(spin + `
		(spin)                                # a child that is waited for
		(spin; (spin; exit) & exit) &         # one that leaves an orphan
		env -i sh -c 'x=$(head -c 30000000 /dev/zero | tr "\0" x); sleep 600' &
		sleep 600`)
	last := b.until(func(c spool.ContainerUsage) bool {
		return time.Duration(c.CPU) > 2*once && c.WorkingSet > 30e6 && c.Processes == 4
	})
	assert.Less(t, time.Duration(last.CPU), 20*once)
}

// TestRealSharedMemory has five processes share 50 MB.
func TestRealSharedMemory(t *testing.T) {
	b := newBench(t)
	b.run(`x=$(head -c 50000000 /dev/zero | tr '\0' x)
		for i in 1 2 3 4; do (sleep 600; :) & done; wait`)
	b.until(func(c spool.ContainerUsage) bool {
		return c.Processes == 9 && c.WorkingSet > 50e6 && c.WorkingSet < 150e6
	})
}
