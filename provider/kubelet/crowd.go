package kubelet

import (
	"fmt"
	"net/http"
	"sync"
)

// maxStreams is how many logs are followed, and how many streams of the other kinds are
// open, in one namespace at a time. Each holds a connection of this process, and of its
// user's way to the HPC side. A kubelet has no such limit, and the pods of one machine.
const maxStreams = 256

// crowd bounds what is open at once by namespace. The zero value is ready for use.
type crowd struct {
	mu   sync.Mutex
	open map[string]int
}

// enter takes a place of the namespace's, until leave.
func (c *crowd) enter(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]int{}
	}
	if c.open[namespace] >= maxStreams {
		return false
	}
	c.open[namespace]++
	return true
}

func (c *crowd) leave(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[namespace]--; c.open[namespace] == 0 {
		delete(c.open, namespace)
	}
}

// bound lets so many requests of a namespace's through to a handler at a time.
func (c *crowd) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		namespace := r.PathValue("namespace")
		if !c.enter(namespace) {
			http.Error(w, fmt.Sprintf("namespace %s has %d logs and sessions open on this node already: close some and try again", namespace, maxStreams), http.StatusTooManyRequests)
			return
		}
		defer c.leave(namespace)
		next.ServeHTTP(w, r)
	})
}
