// Package agenttest holds what the tests of the agent's parts share. It is for tests
// only.
package agenttest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long an Output may take to hold a text.
const patience = 15 * time.Second

// Output is what a process or a client has written so far. Several goroutines may use it.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// WaitFor waits until it holds a text.
func (o *Output) WaitFor(t testing.TB, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(o.String(), text) }, patience, time.Millisecond, "%q", o)
}
