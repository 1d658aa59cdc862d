package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// meanwhile is how many gangs end while the node is away.
const meanwhile = 10

// restart kills the node, has something happen while it is away, and waits until a new
// process has seen to all of that.
func (r *run) restart(ctx context.Context, b batch) error {
	fmt.Fprintln(r.progress, "kill -9 and a new process")
	if err := r.node.Kill(); err != nil {
		return fmt.Errorf("killing the node: %w", err)
	}
	ended, err := r.endSome(ctx, b)
	if err != nil {
		return err
	}
	fresh := batch{name: "fresh", pods: 1}
	if err := r.create(ctx, fresh, r.seen); err != nil {
		return err
	}
	following, done := context.WithCancel(ctx)
	defer done()
	var high peak
	go high.follow(following, r.world)
	began := time.Now()
	ready := make(chan error, 1)
	var readiness time.Duration
	go func() {
		err := r.node.Start(ctx)
		readiness = time.Since(began)
		ready <- err
	}()
	err = r.seen.wait(ctx, patience(b.pods), "gangs that ended while the node was away, or a new one", func() int {
		untold := 0
		for name, p := range r.seen.all(b) {
			if _, is := ended[name]; is && !p.over() {
				untold++
			}
		}
		return untold + fresh.pods - r.seen.count(fresh, func(p seenPod) bool { return p.phase == corev1.PodRunning })
	})
	control := time.Since(began)
	if err := errors.Join(<-ready, err); err != nil {
		return err
	}
	r.jobs++
	if err := r.quiet(ctx); err != nil {
		return err
	}
	after, err := r.gauges(ctx)
	if err != nil {
		return err
	}
	if err := truthful(r.seen.all(b), ended, b.pods); err != nil {
		return err
	}
	r.report.restart(readiness, control, len(ended), after, high.bytes())
	r.world.profile(ctx, r.settings, "heap", "restart")
	stats, err := r.sim.Stats(ctx)
	if err != nil {
		return err
	}
	if stats.Submitted != r.jobs || len(stats.Twice) > 0 {
		return fmt.Errorf("%d jobs were submitted in all, not %d; pods that ran twice: %v", stats.Submitted, r.jobs, stats.Twice)
	}
	return r.clear(ctx, fresh)
}

// endCode is what the programs end with that end while the node is away.
const endCode = 3

// truthful makes sure that after a restart the pods whose programs ended are Failed with
// their exit code, and all others run as before.
func truthful(all, ended map[string]seenPod, pods int) error {
	var wrong []string
	for name, p := range all {
		phase, code := corev1.PodRunning, int32(-1)
		if _, is := ended[name]; is {
			phase, code = corev1.PodFailed, endCode
		}
		if p.phase != phase || p.code != code || p.broken != "" {
			wrong = append(wrong, fmt.Sprintf("%s is %s (%d), not %s (%d) %s", name, p.phase, p.code, phase, code, p.broken))
		}
	}
	if len(wrong) > 0 || len(all) != pods {
		slices.Sort(wrong)
		return fmt.Errorf("after the restart %d of %d pods are there, and %d are not as they must be: %s",
			len(all), pods, len(wrong), strings.Join(wrong[:min(10, len(wrong))], "; "))
	}
	return nil
}

// endSome ends the programs of some gangs, and returns their pods.
func (r *run) endSome(ctx context.Context, b batch) (map[string]seenPod, error) {
	jobs, ended := map[string]bool{}, map[string]seenPod{}
	pods := r.seen.all(b)
	for _, p := range pods {
		if len(jobs) < meanwhile {
			jobs[p.job] = true
		}
	}
	for name, p := range pods {
		if jobs[p.job] {
			ended[name] = p
		}
	}
	for job := range jobs {
		if err := r.sim.EndPods(ctx, job, endCode); err != nil {
			return nil, err
		}
	}
	return ended, nil
}
