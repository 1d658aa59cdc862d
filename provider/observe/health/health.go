package health

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Check tells whether a part is ready: nil, or why it is not. It may be called from any
// goroutine, and waits for nothing.
type Check func() error

// Readiness are the parts of a process that must be ready. The zero value has none.
type Readiness struct {
	mu    sync.Mutex
	parts []part
}

type part struct {
	name  string
	check Check
}

// Add adds a part. Without a Readiness it does nothing.
func (r *Readiness) Add(name string, check Check) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, part{name, check})
}

// ServeHTTP says of each part whether it is ready, in the form of Kubernetes' own
// programs: "[+]spool ok", "[-]spool: why not". The status is 200 or 503.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	parts := r.parts
	r.mu.Unlock()
	var text bytes.Buffer
	status, verdict := http.StatusOK, "ready"
	for _, p := range parts {
		if err := p.check(); err != nil {
			status, verdict = http.StatusServiceUnavailable, "not ready"
			fmt.Fprintf(&text, "[-]%s: %v\n", p.name, err)
			continue
		}
		fmt.Fprintf(&text, "[+]%s ok\n", p.name)
	}
	fmt.Fprintln(&text, verdict)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes())
}

// Live is the handler of /healthz.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
}

// Once is a Check of something that happens once.
type Once struct {
	done    chan struct{}
	happens sync.Once
	waits   string
}

// NewOnce makes a Check that fails with the text until Done.
func NewOnce(waits string) *Once { return &Once{done: make(chan struct{}), waits: waits} }

// Done lets the Check succeed from now on. Without an Once it does nothing.
func (o *Once) Done() {
	if o != nil {
		o.happens.Do(func() { close(o.done) })
	}
}

// Check implements Check.
func (o *Once) Check() error {
	select {
	case <-o.done:
		return nil
	default:
		return errors.New(o.waits)
	}
}
