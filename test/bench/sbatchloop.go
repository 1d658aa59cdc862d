package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gangline/gangline/test/checker"
)

// sbatchLoop is how long a loop of sbatch takes until its jobs have ended, and makes sure
// that all have ended well.
func (b *bench) sbatchLoop(ctx context.Context, jobs int, script string) (float64, error) {
	before, err := b.completedJobs()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	loop := fmt.Sprintf("i=0; while [ $i -lt %d ]; do sbatch --quiet --ntasks=1 --mem=64 --output=/dev/null --wrap='%s' || exit; i=$((i+1)); done", jobs, script)
	if _, err := b.env.Slurm.Run(ctx, "sh", "-c", loop); err != nil {
		return 0, fmt.Errorf("the loop of sbatch: %w", err)
	}
	if err := pollFor(ctx, 15*time.Minute, 100*time.Millisecond, b.idle(ctx)); err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	// The file is written a moment after the queue is empty.
	completed := before
	err = pollFor(ctx, 10*time.Second, 100*time.Millisecond, func() (_ bool, err error) {
		completed, err = b.completedJobs()
		return completed-before == jobs, err
	})
	if err != nil {
		return 0, fmt.Errorf("%d of the loop's %d jobs have completed: %w", completed-before, jobs, err)
	}
	return took, nil
}

// loopJob is the name that sbatch --wrap gives to a job.
const loopJob = "wrap"

// completedJobs is how many jobs of loops have ended well so far, by Slurm's own file of
// ended jobs.
func (b *bench) completedJobs() (n int, err error) {
	file, err := os.Open(b.env.Slurm.LogFile("jobcomp"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // no job has ended yet
	}
	if err != nil {
		return 0, fmt.Errorf("reading which jobs have ended: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	jobs, err := checker.ReadJobcomp(file)
	for _, j := range jobs {
		if j.Name == loopJob && j.State == "COMPLETED" {
			n++
		}
	}
	return n, err
}
