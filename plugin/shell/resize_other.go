//go:build !unix

package shell

import (
	"context"
	"time"
)

// changesOfSize has an element every now and then: these systems do not tell.
func changesOfSize(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			select {
			case <-ctx.Done():
				return
			case changes <- struct{}{}:
			}
		}
	}()
	return changes
}
