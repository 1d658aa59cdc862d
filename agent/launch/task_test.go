package launch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/provider/spool"
)

// twoTasks is a gang of which each slot has a task, with the exit codes of their pods.
func twoTasks(t *testing.T, codes ...int32) []Task {
	t.Helper()
	dir := spool.Root(t.TempDir()).Dir("pi-1")
	require.NoError(t, dir.Create(len(codes)))
	gang := spool.Gang{Version: spool.Version, Allocation: "pi-1", Slots: make([]spool.Slot, len(codes)), Groups: 1}
	var tasks []Task
	for k, code := range codes {
		gang.Tasks = append(gang.Tasks, []int{k})
		require.NoError(t, spool.Write(dir.Status(k), spool.Status{Pod: &spool.PodStatus{
			Started: time.Now(), Done: true, Containers: []corev1.ContainerStatus{ended("main", code)},
		}}))
		tasks = append(tasks, Task{
			Dir: dir, Number: k, JobID: "f1", Pace: watch.Pace{Fast: time.Millisecond, Slow: time.Millisecond},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}
	require.NoError(t, spool.Write(dir.Gang(), gang))
	return tasks
}

func resultOf(t *testing.T, dir spool.Dir) (spool.Result, bool) {
	t.Helper()
	var r spool.Result
	found, err := spool.Read(dir.Result(), &r)
	require.NoError(t, err)
	return r, found
}

func TestATaskWhosePodsFailedWaitsForTheOthers(t *testing.T) {
	tasks := twoTasks(t, 3, 0)
	first := make(chan int)
	go func() { first <- tasks[0].End(t.Context(), nil) }()
	require.Eventually(t, func() bool {
		_, err := os.Stat(tasks[0].Dir.TaskResult(0))
		return err == nil
	}, 10*time.Second, time.Millisecond)
	select {
	case code := <-first:
		t.Fatalf("it ended with %d, and Flux would end the other", code)
	default:
	}
	_, found := resultOf(t, tasks[0].Dir)
	assert.False(t, found, "the allocation has not ended")
	assert.Equal(t, 0, tasks[1].End(t.Context(), nil))
	assert.Equal(t, 3, <-first)
	r, _ := resultOf(t, tasks[0].Dir)
	assert.Equal(t, 3, r.ExitCode)
	assert.Equal(t, `slot 0: container "main" ended with exit code 3`, r.Message)
}

func TestATaskThatWaitsCanBeEnded(t *testing.T) {
	tasks := twoTasks(t, 3, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Equal(t, 3, tasks[0].End(ctx, nil))
}

func TestHowTasksEnd(t *testing.T) {
	for sentence, tc := range map[string]struct {
		failure error
		code    int
		message string // of result.json; empty for none
		files   int    // that it leaves
	}{
		"an agent that failed waits for nobody":  {fmt.Errorf("no space left"), 1, "no space left", 2},
		"one that was asked to end":              {fmt.Errorf("serving: %w", ErrTerminated), 143, "serving: the job was asked to end", 2},
		"a duplicate leaves nothing":             {fmt.Errorf("this is job f2: %w: job f1 on n0", spool.ErrClaimed), 0, "", 0},
		"one that has succeeded is not the last": {nil, 0, "", 1},
	} {
		t.Run(sentence, func(t *testing.T) {
			tasks := twoTasks(t, 0, 0)
			assert.Equal(t, tc.code, tasks[0].End(t.Context(), tc.failure))
			r, found := resultOf(t, tasks[0].Dir)
			assert.Equal(t, tc.message != "", found)
			assert.Equal(t, tc.message, r.Message)
			left, err := filepath.Glob(filepath.Join(string(tasks[0].Dir), "result*"))
			require.NoError(t, err)
			assert.Len(t, left, tc.files)
		})
	}
}
