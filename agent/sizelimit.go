package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gangline/gangline/agent/volume"
)

const (
	// firstSizes is how long after a pod's start its volumes are first measured,
	// sizePace how long at least lies between two measurements (kubelet's eviction
	// manager has the same), and sizeShare keeps the measuring of large trees to a
	// twentieth of the time.
	firstSizes = 2 * time.Second
	sizePace   = 10 * time.Second
	sizeShare  = 20

	// evictionGrace is what kubelet gives a pod that has exceeded a limit.
	evictionGrace = time.Second
)

// sizeLimit is how much directories may hold.
type sizeLimit struct {
	dirs    []string
	bytes   int64
	message string // of the eviction, in kubelet's words
}

// sizeLimits are the pod's, in the order in which kubelet looks at them: volumes, the
// pod, containers.
func (p *pod) sizeLimits() ([]sizeLimit, error) {
	var limits []sizeLimit
	var onDisk, logs []string
	add := func(limit, message string, dirs ...string) error {
		if limit == "" {
			return nil
		}
		q, err := resource.ParseQuantity(limit)
		if err != nil {
			return fmt.Errorf("reading the limit %q: %w", limit, err)
		}
		if q.Sign() > 0 {
			limits = append(limits, sizeLimit{dirs, q.Value(), message})
		}
		return nil
	}
	for _, v := range p.orders.Volumes {
		if v.EmptyDir == nil {
			continue
		}
		dir := p.files.source(v)
		if !v.EmptyDir.Memory {
			onDisk = append(onDisk, dir)
		}
		message := fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q.", v.Name, v.EmptyDir.SizeLimit)
		if err := add(v.EmptyDir.SizeLimit, message, dir); err != nil {
			return nil, err
		}
	}
	for _, c := range p.containers() {
		logs = append(logs, filepath.Dir(p.slot.cfg.Dir.Log(p.slot.index, p.orders.UID, c.Name, 0)))
	}
	message := fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s.", p.orders.StorageLimit)
	if err := add(p.orders.StorageLimit, message, append(onDisk, logs...)...); err != nil {
		return nil, err
	}
	for i, c := range p.containers() {
		message := fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q.", c.Name, c.StorageLimit)
		if err := add(c.StorageLimit, message, logs[i]); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// exceeded is the message of the first limit that is exceeded, empty for none.
func exceeded(ctx context.Context, limits []sizeLimit) (string, error) {
	for _, l := range limits {
		var total int64
		for _, dir := range l.dirs {
			used, err := volume.Usage(ctx, dir, l.bytes)
			if err != nil {
				return "", fmt.Errorf("measuring %s: %w", dir, err)
			}
			if total += used; total > l.bytes {
				return l.message, nil
			}
		}
	}
	return "", nil
}

// watchSizes measures what the pod has limits for, until it ends, and evicts it when
// one is exceeded.
func (s *slot) watchSizes(p *pod) {
	limits, err := p.sizeLimits()
	if err != nil {
		p.logger.Error("a limit has no effect", "error", err)
	}
	if len(limits) == 0 {
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	p.stopMeasuring = stop
	s.background.Go(func() {
		timer := time.NewTimer(firstSizes)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			began := time.Now()
			message, err := exceeded(ctx, limits)
			if err != nil && ctx.Err() == nil {
				p.logger.Warn("measuring the pod's volumes", "error", err)
			}
			if message != "" {
				s.post(func() { s.evict(p, message) })
				return
			}
			timer.Reset(max(sizePace, sizeShare*time.Since(began)))
		}
	})
}

// evict ends a pod that has exceeded a limit.
func (s *slot) evict(p *pod, message string) {
	if s.pod != p || p.life.Finished() {
		return
	}
	p.logger.Warn("evicting the pod", "message", message)
	p.evicted = message
	p.life.Stop(time.Now(), evictionGrace)
}
