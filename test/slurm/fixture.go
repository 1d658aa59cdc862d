package slurm

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	startWithin = 2 * time.Minute
	stopWithin  = time.Minute
	logTail     = 3000
)

// ForTest starts a cluster that ends with the test, under a name of its own unless cfg has
// one. Without Slurm or root the test fails: a skipped test would prove nothing. When the
// test has failed, the ends of the daemons' logs are shown.
func ForTest(t testing.TB, cfg Config) *Cluster {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "t" + randomHex()
		if err := RemoveLeft(); err != nil {
			t.Logf("remove left files: %v", err)
		}
	}
	if cfg.Progress == nil {
		cfg.Progress = t.Output()
	}
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	c, err := Start(ctx, cfg)
	if err != nil {
		t.Fatalf("no dev Slurm for this test: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, c)
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopWithin) // the test's own is over
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop the dev Slurm: %v", err)
		}
	})
	return c
}

func showLogs(t testing.TB, c *Cluster) {
	paths, err := filepath.Glob(c.LogFile("*"))
	if err != nil {
		t.Logf("list the logs: %v", err)
		return
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Logf("read a log: %v", err)
			continue
		}
		t.Logf("end of %s:\n%s", filepath.Base(path), data[max(0, len(data)-logTail):])
	}
}

func randomHex() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}
