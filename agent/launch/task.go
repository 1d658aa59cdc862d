package launch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/gangline/gangline/agent/watch"
	"github.com/gangline/gangline/provider/spool"
)

// ErrTerminated is how an agent ended that was asked to before its allocation was given
// back.
var ErrTerminated = errors.New("the job was asked to end")

// Task is one task of an allocation in which no launcher sees all of them end: Flux
// starts the agents itself.
type Task struct {
	Dir    spool.Dir
	Number int
	JobID  string
	Pace   watch.Pace
	Logger *slog.Logger
}

// End is called when the task's agent has ended, with nil if the allocation was given
// back. It returns the exit code that the task is to have, which is as the launcher's: the
// highest of the pods' or, where the agent failed, its own. The task that is the last one
// to end leaves result.json.
//
// Flux ends a job as soon as a task of it fails (exit-on-error): that is what is wanted
// where an agent fails, and not where a pod has. So a task whose pods have failed waits for
// the others', until the context ends.
//
// A task of a duplicate job returns 0 at once, and leaves nothing.
func (t Task) End(ctx context.Context, failure error) int {
	if errors.Is(failure, spool.ErrClaimed) {
		t.Logger.Info("another job runs this gang; this one ends and has run nothing", "job", t.JobID, "holder", failure.Error())
		return 0
	}
	agent := 0
	switch {
	case errors.Is(failure, ErrTerminated):
		agent = codeTerminated
	case failure != nil:
		t.Logger.Error("the agent failed", "job", t.JobID, "error", failure.Error())
		agent = 1
	}
	gang, err := readGang(t.Dir)
	if err != nil { // nobody else has begun either
		t.Logger.Error("ending the task", "job", t.JobID, "error", err.Error())
		return max(agent, 1)
	}
	own := outcome(agent, t.own(gang), time.Now())
	if failure != nil {
		own.Message = failure.Error()
	}
	logger := t.Logger.With("job", t.JobID)
	leave(ctx, t.Dir.TaskResult(t.Number), own, logger)
	if agent == 0 && own.ExitCode != 0 {
		t.awaitOthers(ctx, len(gang.Tasks))
	}
	if all, complete := t.combined(len(gang.Tasks)); complete || agent != 0 {
		leave(ctx, t.Dir.Result(), all, logger)
	}
	return own.ExitCode
}

// own are the last pods of the task's slots.
func (t Task) own(g spool.Gang) []lastPod {
	var slots []int
	if t.Number < len(g.Tasks) {
		slots = g.Tasks[t.Number]
	}
	return slices.DeleteFunc(lastPods(t.Dir, g), func(p lastPod) bool { return !slices.Contains(slots, p.slot) })
}

// combined is the gravest of the tasks' results, and whether all of them are there.
func (t Task) combined(tasks int) (gravest spool.Result, complete bool) {
	complete = true
	for n := range tasks {
		var r spool.Result
		found, err := spool.Read(t.Dir.TaskResult(n), &r)
		complete = complete && found && err == nil
		if r.ExitCode > gravest.ExitCode || gravest.Finished.IsZero() {
			gravest = r
		}
	}
	return gravest, complete
}

// awaitOthers waits until all tasks have left their results.
func (t Task) awaitOthers(ctx context.Context, tasks int) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	w := watch.Watcher{Pace: t.Pace, Logger: t.Logger, Changed: func(string) error {
		if _, complete := t.combined(tasks); complete {
			done()
		}
		return nil
	}}
	for n := range tasks {
		w.Paths = append(w.Paths, t.Dir.TaskResult(n))
	}
	w.Run(ctx)
}
