package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/simulator"
	"github.com/gangline/gangline/test/soak"
)

// run is one run of the program.
type run struct {
	*world
	settings
	seen   *watched
	report *report
	jobs   int // that were to be submitted so far
}

// patience is how long something of so many pods may take at all: it finds what hangs,
// not what is slow.
func patience(pods int) time.Duration {
	return 2*time.Minute + time.Duration(pods)*200*time.Millisecond
}

// measure runs all parts. The report is what there is so far, also with an error.
func measure(ctx context.Context, s settings) (*report, error) {
	r := &run{settings: s, report: newReport(s)}
	err := r.all(ctx)
	return r.report, err
}

func (r *run) all(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.world, err = newWorld(ctx, r.settings); err != nil {
		return err
	}
	defer func() {
		if err = harness.Interrupted(ctx, err); err != nil && !errors.Is(err, harness.ErrInterrupted) {
			err = fmt.Errorf("%w\nthe end of the node's log:\n%s", err, r.node.LogTail())
		}
		err = errors.Join(err, r.stop())
	}()
	if err := r.makeNamespace(ctx); err != nil {
		return err
	}
	if r.seen, err = r.watch(ctx); err != nil {
		return err
	}
	if r.stormy() {
		b := batch{name: "storm", pods: r.pods, gangs: r.gangs, ends: true, seed: r.seed}
		if err := r.storm(ctx, b); err != nil {
			return err
		}
		return r.end(ctx, b)
	}
	if r.scheduled > 0 {
		b := batch{name: "scheduled", pods: r.scheduled, gangs: r.scheduled / podsPerScheduledGang, scheduled: true}
		if err := errors.Join(r.ramp(ctx, b, "by the scheduler"), r.clear(ctx, b)); err != nil {
			return err
		}
	}
	b := batch{name: "bound", pods: r.pods, gangs: r.gangs}
	for _, part := range []func() error{
		func() error { return r.ramp(ctx, b, "") },
		func() error { return r.steady(ctx) },
		func() error { return r.restart(ctx, b) },
		func() error { return r.end(ctx, b) },
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// end deletes the pods, or leaves that to the end of their world.
func (r *run) end(ctx context.Context, b batch) error {
	if r.leave {
		return nil
	}
	return r.clear(ctx, b)
}

// makeNamespace makes the pods' namespace, and waits for its ServiceAccount.
func (r *run) makeNamespace(ctx context.Context) error {
	_, err := r.clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the namespace: %w", err)
	}
	return until(ctx, time.Minute, "the namespace has its ServiceAccount", func() error {
		_, err := r.clients.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// ramp creates a batch and waits until all of it runs.
func (r *run) ramp(ctx context.Context, b batch, how string) error {
	fmt.Fprintf(r.progress, "%d pods in %d gangs %s\n", b.pods, b.jobs(), how)
	before, err := r.gauges(ctx)
	if err != nil {
		return err
	}
	following, done := context.WithCancelCause(ctx)
	defer done(errPartIsOver)
	var high peak
	go high.follow(following, r.world)
	go r.world.profile(following, r.settings, "profile", "ramp-"+b.name)
	created := make(chan error, 1)
	began := time.Now()
	var creation time.Duration
	go func() {
		err := r.create(ctx, b, r.seen)
		creation = time.Since(began)
		created <- err
	}()
	err = r.seen.wait(ctx, patience(b.pods), "pods that are Running", func() int {
		return b.pods - r.seen.count(b, func(p seenPod) bool { return p.phase == corev1.PodRunning })
	})
	if err := errors.Join(<-created, err); err != nil {
		return err
	}
	after, err := r.gauges(ctx)
	if err != nil {
		return err
	}
	if status := difference(before, after)["pods/status patch"]; status < float64(b.pods) {
		return fmt.Errorf("%d pods run, and gangline_api_writes_total tells of %.0f writes of a pod's status: no figure of writes is true", b.pods, status)
	}
	r.report.ramp(b, how, rampFigures{latencies: r.seen, creation: creation, before: before, after: after, peak: high.bytes()})
	r.world.profile(ctx, r.settings, "heap", "ramp-"+b.name)
	r.jobs += b.jobs()
	return r.checkJobs(ctx, b.jobs())
}

// checkJobs makes sure that each gang has had one job, and that no pod ran twice.
func (r *run) checkJobs(ctx context.Context, running int) error {
	stats, err := r.sim.Stats(ctx)
	if err != nil {
		return err
	}
	if stats.Submitted != r.jobs || stats.Running != running || len(stats.Twice) > 0 {
		return fmt.Errorf("%d jobs were submitted and %d run; there should be %d and %d, and no pod run twice: %v",
			stats.Submitted, stats.Running, r.jobs, running, stats.Twice)
	}
	return nil
}

// settling is how long what the ramp has left to do may take.
const settling = 3 * time.Second

// steady looks at the node while nothing happens.
func (r *run) steady(ctx context.Context) error {
	fmt.Fprintf(r.progress, "the steady state, %v\n", r.window)
	if err := r.quiet(ctx); err != nil {
		return err
	}
	before, err := r.gauges(ctx)
	if err != nil {
		return err
	}
	asked, err := r.sim.Stats(ctx)
	if err != nil {
		return err
	}
	following, done := context.WithCancelCause(ctx)
	defer done(errPartIsOver)
	go r.world.profile(following, r.settings, "profile", "steady")
	growth, err := r.follow(ctx)
	if err != nil {
		return err
	}
	after, err := r.gauges(ctx)
	if err != nil {
		return err
	}
	answered, err := r.sim.Stats(ctx)
	if err != nil {
		return err
	}
	r.report.steady(before, after, asked, answered, growth)
	if wrote := difference(before, after); len(wrote) > 0 {
		return fmt.Errorf("the node wrote while nothing happened: %v", wrote)
	}
	return nil
}

// samples is how often the node is looked at in the steady state.
const samples = 20

// follow looks at the node's memory and goroutines for as long as the steady state lasts.
func (r *run) follow(ctx context.Context) ([]soak.Series, error) {
	all := []soak.Series{
		{Name: "memory (RSS)", Unit: "MB", Share: 0.02, Slack: 2}, {Name: "goroutines", Share: 0.02, Slack: 3},
	}
	tick := time.NewTicker(r.window / samples)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < r.window; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		g, err := r.nodeGauges(ctx)
		if err != nil {
			return nil, err
		}
		all[0].Add(time.Since(began), g.rss/1e6)
		all[1].Add(time.Since(began), g.gorts)
	}
	return all, nil
}

// quiet waits until the node writes nothing any more, the Events that wait for their turn
// included.
func (r *run) quiet(ctx context.Context) error {
	last, since := -1.0, time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; {
		g, err := r.gauges(ctx)
		if err != nil {
			return err
		}
		if g.total() != last {
			last, since = g.total(), time.Now()
		}
		if time.Since(since) >= settling {
			return nil
		}
		if time.Since(begun) > patience(r.pods) {
			return fmt.Errorf("the node writes and writes: %v", g.writes)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// clear deletes a batch and waits until nothing of it is left.
func (r *run) clear(ctx context.Context, b batch) error {
	fmt.Fprintf(r.progress, "deleting the pods %s\n", b.name)
	began := time.Now()
	anyPod := func(seenPod) bool { return true }
	there := r.seen.count(b, anyPod)
	// So many deletions in one call may take longer than a call may, and are cut off in
	// several ways.
	selected := metav1.ListOptions{LabelSelector: labelBatch + "=" + b.name}
	err := until(ctx, patience(b.pods), "deleting the pods", func() error {
		return r.clients.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, selected)
	})
	if err != nil {
		return err
	}
	if err := r.seen.wait(ctx, patience(b.pods), "deleted pods that are still there", func() int { return r.seen.count(b, anyPod) }); err != nil {
		return err
	}
	r.report.cleared(b, there, time.Since(began))
	return until(ctx, patience(b.pods), "nothing is left in the spool and the queue", func() error { return r.left(ctx, b) })
}

// left says what is left of a batch on the HPC side.
func (r *run) left(ctx context.Context, b batch) error {
	stats, err := r.sim.Stats(ctx)
	if err != nil {
		return err
	}
	var others int
	for _, o := range []batch{{name: "scheduled"}, {name: "bound"}, {name: "fresh"}, {name: "storm"}} {
		if o.name != b.name {
			others += len(r.seen.all(o))
		}
	}
	if others > 0 {
		return nil // what is there is theirs
	}
	dirs, err := os.ReadDir(filepath.Join(r.spool, "gangs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("listing the spool: %w", err)
	}
	if stats.Running+stats.Queued+stats.Pods+len(dirs) > 0 {
		return fmt.Errorf("%s, and %d directories in the spool", describe(stats), len(dirs))
	}
	return nil
}

func describe(s simulator.Stats) string {
	return fmt.Sprintf("%d jobs wait, %d run, with %d pods", s.Queued, s.Running, s.Pods)
}

// difference is what was written between two moments.
func difference(before, after gauges) map[string]float64 {
	wrote := map[string]float64{}
	for what, n := range after.writes {
		if d := n - before.writes[what]; d > 0 {
			wrote[what] = d
		}
	}
	return wrote
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
