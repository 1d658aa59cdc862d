package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// end lets some of the pods end, and reports when the API server knew.
func (l *load) end(ctx context.Context, title string, pods int, ends string) error {
	w, err := l.watchPods(ctx, "load")
	if err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	defer w.Stop()
	if err := os.WriteFile(filepath.Join(ends, "go"), nil, 0o644); err != nil {
		return err
	}
	known := map[string]time.Time{}
	err = await(ctx, w, min(pods, mostEnds), func(p *corev1.Pod) (bool, error) {
		if p.Status.Phase != corev1.PodSucceeded {
			return false, nil
		}
		if _, ok := known[p.Spec.Hostname]; !ok {
			known[p.Spec.Hostname] = time.Now()
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods to end: %w", err)
	}
	var lags []float64
	for host, at := range known {
		path := filepath.Join(ends, host)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ns, err := strconv.ParseInt(string(text[:len(text)-1]), 10, 64)
		if err != nil {
			return fmt.Errorf("reading when %s ended: %w", host, err)
		}
		lags = append(lags, at.Sub(time.Unix(0, ns)).Seconds())
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	last := figure{What: "a process's end is in its pod's status after, 99 %", Unit: "s", Ours: []float64{quantile(lags, 0.99)}}
	if pods >= 1000 {
		last.Goal = atMost(2)
	}
	l.report.add(title, figure{What: "a process's end is in its pod's status after, median", Unit: "s", Ours: []float64{median(lags)}}, last)
	return nil
}
