package flux

import (
	"context"
	"errors"
	"sync"
	"syscall"
)

// mailbox keeps a stream's answers until they are taken, however many: whoever puts
// them must not be held up.
type mailbox struct {
	mu      sync.Mutex
	replies []reply
	filled  chan struct{}
}

func newMailbox() *mailbox { return &mailbox{filled: make(chan struct{}, 1)} }

func (m *mailbox) put(r reply) {
	m.mu.Lock()
	m.replies = append(m.replies, r)
	m.mu.Unlock()
	select {
	case m.filled <- struct{}{}:
	default: // it is known already
	}
}

// take waits for an answer. What is there is taken even after the context's end.
func (m *mailbox) take(ctx context.Context) (reply, error) {
	for {
		m.mu.Lock()
		if len(m.replies) > 0 {
			r := m.replies[0]
			m.replies[0] = reply{}
			m.replies = m.replies[1:]
			m.mu.Unlock()
			return r, nil
		}
		m.mu.Unlock()
		select {
		case <-m.filled:
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		}
	}
}

// isEnd tells whether an error is how a stream ends that is complete.
func isEnd(err error) bool {
	var answered *Error
	return errors.As(err, &answered) && answered.Errno == syscall.ENODATA
}
