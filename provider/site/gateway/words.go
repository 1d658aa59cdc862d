package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Words takes a gateway's standard error: it logs each line, and keeps the last ones
// to explain the gateway's end.
type Words struct {
	// Log gets the lines, at the level debug: the end is told with the last of them.
	Log *slog.Logger

	mu   sync.Mutex
	rest []byte // a line that has not ended
	last []string
}

const (
	maxLine   = 1000
	lastLines = 5
)

// Write implements io.Writer. It never fails.
func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, ended := bytes.Cut(w.rest, []byte{'\n'})
		if !ended && len(w.rest) <= maxLine {
			return len(p), nil
		}
		if !ended {
			line, rest = w.rest[:maxLine], w.rest[maxLine:]
		}
		w.rest = rest
		w.keep(strings.TrimSpace(strings.ToValidUTF8(string(line[:min(len(line), maxLine)]), "\uFFFD")))
	}
}

func (w *Words) keep(line string) {
	if line == "" {
		return
	}
	if w.Log != nil {
		w.Log.Log(context.Background(), slog.LevelDebug, "a gateway says", "line", line)
	}
	w.last = append(w.last, line)
	w.last = w.last[max(0, len(w.last)-lastLines):]
}

// String is the last lines.
func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.last
	if rest := strings.TrimSpace(string(w.rest)); rest != "" {
		lines = append(lines[:len(lines):len(lines)], rest)
	}
	return strings.Join(lines, "; ")
}
