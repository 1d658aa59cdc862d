package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/simulator"
)

// The sizes of a storm: programs end within programTime, but some only after longTime, so that
// a job can be missed before its pods have ended. A job comes to its harm within harmTime
// after its launch. There are more HPC nodes than the pods need, so that the
// failure of one harms few gangs.
const (
	programTime      = 4 * time.Second
	longTime         = 12 * time.Second
	harmTime         = 4 * time.Second
	podsPerStormNode = 10
	nodeIsDown       = 500 * time.Millisecond
	longestAbsence   = time.Second
)

// failuresOf are the simulator's for a share of calls that fail and of gangs that come to
// harm.
func failuresOf(share float64) simulator.Failures {
	harm := share / 4
	return simulator.Failures{
		Submit: share, Refuse: share, Unanswered: share, List: share, Cancel: share,
		Node: harm, Agents: harm, Preempt: harm, Forget: harm, Within: harmTime,
	}
}

// deed is one thing that is done in a storm.
type deed struct {
	after int           // so many pods have ended
	node  string        // the HPC node that fails; empty for a kill of the virtual node
	pause time.Duration // how long what it took is away
}

// plan draws the deeds of a storm, in their order. The last tenth of the pods is left alone.
func plan(s settings) []deed {
	dice := rand.New(rand.NewPCG(s.seed, 1)) //nolint:gosec // it has to be repeatable
	var deeds []deed
	for range s.kills {
		deeds = append(deeds, deed{
			after: dice.IntN(s.pods*9/10 + 1), pause: time.Duration(dice.Int64N(int64(longestAbsence))),
		})
	}
	nodes := stormNodes(s.pods)
	for range int(s.failures * float64(nodes)) {
		deeds = append(deeds, deed{
			after: dice.IntN(s.pods*9/10 + 1), node: fmt.Sprintf("sim%d", 1+dice.IntN(nodes)), pause: nodeIsDown,
		})
	}
	slices.SortStableFunc(deeds, func(a, b deed) int { return cmp.Compare(a.after, b.after) })
	return deeds
}

func stormNodes(pods int) int { return 4 + pods/podsPerStormNode }

// storm has pods run to their ends while submissions and listings fail, answers are lost,
// nodes fail, agents are killed, jobs are preempted and forgotten, and the virtual node is
// killed. Then it judges what became of each pod.
func (r *run) storm(ctx context.Context, b batch) error {
	fmt.Fprintf(r.progress, "a storm over %d pods in %d gangs: harm to %.0f %% of them, %d kills of the node\n",
		b.pods, b.jobs(), r.failures*100, r.kills)
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- r.create(ctx, b, r.seen) }()
	kills, err := r.rage(ctx, b, plan(r.settings))
	if err := errors.Join(<-created, err); err != nil {
		return err
	}
	err = r.seen.wait(ctx, stormPatience(b.pods), "pods that have ended", func() int { return b.pods - r.seen.count(b, seenPod.over) })
	took := time.Since(began)
	// What has not ended is judged with the rest.
	if err != nil && ctx.Err() != nil {
		return err
	}
	stats, asked := r.sim.Stats(ctx)
	accounts, told := r.sim.Accounts(ctx)
	if err := errors.Join(asked, told); err != nil {
		return err
	}
	v := verdict{batch: b, seen: r.seen.all(b), accounts: accounts, kills: kills, stats: stats}
	v.judge(r.failures > 0)
	r.report.storm(v, took)
	if len(v.violations) > 0 {
		const most = 20
		return fmt.Errorf("the storm of seed %d has broken %d rules:\n%s", r.seed, len(v.violations), lines(v.violations[:min(most, len(v.violations))]))
	}
	return err
}

// stormPatience has in it that a submission is tried again after minutes.
func stormPatience(pods int) time.Duration { return 10*time.Minute + patience(pods) }

// rage does the deeds, and returns when the virtual node was killed.
func (r *run) rage(ctx context.Context, b batch, deeds []deed) (kills []time.Time, err error) {
	for _, d := range deeds {
		err := r.seen.wait(ctx, stormPatience(b.pods), "pods that are to end before the next deed", func() int {
			return max(0, d.after-r.seen.count(b, seenPod.over))
		})
		if err != nil {
			return kills, err
		}
		if d.node == "" {
			kills = append(kills, time.Now())
		}
		if err := r.do(ctx, d); err != nil {
			return kills, err
		}
	}
	return kills, nil
}

// do takes something away for a while.
func (r *run) do(ctx context.Context, d deed) error {
	away, back := r.node.Kill, func() error { return r.node.Start(ctx) }
	if d.node != "" {
		away = func() error { return r.sim.FailNode(ctx, d.node) }
		back = func() error { return r.sim.RestoreNode(ctx, d.node) }
	}
	if err := away(); err != nil {
		return fmt.Errorf("in the storm: %w", err)
	}
	if err := wait(ctx, d.pause); err != nil {
		return err
	}
	if err := back(); err != nil {
		return fmt.Errorf("in the storm: %w", err)
	}
	return nil
}

// program is what the ith pod of a storm does: it ends after some time, and every fourth
// with an exit code of its own.
func program(seed uint64, i int) (command []string, code int32) {
	dice := rand.New(rand.NewPCG(seed, uint64(i)+2)) //nolint:gosec // it has to be repeatable
	if dice.IntN(4) == 0 {
		code = 1 + dice.Int32N(9)
	}
	after := dice.Float64() * programTime.Seconds()
	if dice.IntN(6) == 0 {
		after = longTime.Seconds()
	}
	return []string{"exit", fmt.Sprint(code), fmt.Sprintf("%.2f", after)}, code
}

// over tells that a pod has ended.
func (p seenPod) over() bool { return p.phase == corev1.PodSucceeded || p.phase == corev1.PodFailed }
