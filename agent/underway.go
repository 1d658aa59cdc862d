package agent

import (
	"context"
	"sync"
)

// underway knows what has begun and not ended. Its zero value is ready for use.
type underway struct {
	mu    sync.Mutex
	ends  map[int]chan struct{}
	count int
}

// begin notes a beginning; what it returns is to be called at the end.
func (u *underway) begin() (ended func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ends == nil {
		u.ends = map[int]chan struct{}{}
	}
	u.count++
	n, end := u.count, make(chan struct{})
	u.ends[n] = end
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.ends, n)
		close(end)
	})
}

// wait waits for the end of all that has begun so far.
func (u *underway) wait(ctx context.Context) error {
	u.mu.Lock()
	var ends []chan struct{}
	for _, end := range u.ends {
		ends = append(ends, end)
	}
	u.mu.Unlock()
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
