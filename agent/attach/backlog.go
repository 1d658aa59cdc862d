package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	// maxBehind is how many bytes a client may be behind the process.
	maxBehind = 1 << 30
	// keptSize is how large the file of a backlog stays that has been read.
	keptSize = 1 << 20
)

// backlog is what a client has still to get of one stream. It is in a file without
// a name, so that it costs no memory and ends with this program.
type backlog struct {
	limit int64

	mu         sync.Mutex
	file       *os.File
	head, tail int64 // of the file: what is between them is to be read
	ended      bool
	err        error         // why nothing more is taken
	changed    chan struct{} // holds a token after a change
}

// newBacklog makes a backlog whose file is in a directory.
func newBacklog(dir string, limit int64) (*backlog, error) {
	file, err := os.CreateTemp(dir, ".attach-*")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("making room for a client's output: %w", err)
	}
	return &backlog{limit: limit, file: file, changed: make(chan struct{}, 1)}, nil
}

// add adds what the process wrote. It does not wait for the client; a client for
// whom there is no room is let go.
func (b *backlog) add(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.err != nil {
		return
	}
	if b.tail-b.head+int64(len(p)) > b.limit {
		b.err = fmt.Errorf("the client is more than %d MiB behind; the log has everything", b.limit>>20)
	} else if _, err := b.file.WriteAt(p, b.tail); err != nil {
		b.err = fmt.Errorf("keeping a client's output: %w", err)
	} else {
		b.tail += int64(len(p))
	}
	b.wake()
}

// end says that nothing more will be added.
func (b *backlog) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// copyTo writes to the client until the end, or until the client has to be let go.
// Only one goroutine may call it.
func (b *backlog) copyTo(ctx context.Context, client io.Writer) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := b.next(buf)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if n == 0 {
			select {
			case <-b.changed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return fmt.Errorf("writing to a client: %w", err)
		}
	}
}

// next takes what there is, none if there is nothing yet, io.EOF at the end.
func (b *backlog) next(buf []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.tail - b.head
	switch {
	case b.err != nil:
		return 0, b.err
	case left == 0 && b.ended:
		return 0, io.EOF
	case left == 0:
		return 0, nil
	}
	n, err := b.file.ReadAt(buf[:min(left, int64(len(buf)))], b.head)
	if err != nil {
		return 0, fmt.Errorf("reading a client's output: %w", err)
	}
	if b.head += int64(n); b.head == b.tail {
		if b.tail > keptSize {
			err = b.file.Truncate(0)
		}
		b.head, b.tail = 0, 0
	}
	return n, err
}

// close gives the file back. Nothing may be added any more.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = os.ErrClosed
	}
	_ = b.file.Close()
}
