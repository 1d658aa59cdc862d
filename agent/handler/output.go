package handler

import (
	"bytes"
	"sync"
)

// maxOutput is how much of a command's output or a response's body is kept, as
// with kubelet: 10 KiB.
const maxOutput = 10 << 10

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data.Write(p[:min(len(p), maxOutput-b.data.Len())])
	return len(p), nil
}

func (b *limitedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
