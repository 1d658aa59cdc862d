package crilog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// Tail returns the end of a log as the program wrote it, without times: at most
// maxLines lines and maxBytes bytes.
func Tail(path string, maxLines, maxBytes int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the log's end: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fmt.Errorf("reading the log's end: %w", err)
	}
	// Each line has a head of some 45 bytes.
	window := int64(maxBytes + 64*(maxLines+1) + maxPiece)
	buf := make([]byte, min(size, window))
	if _, err := f.ReadAt(buf, size-int64(len(buf))); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the log's end: %w", err)
	}
	if int64(len(buf)) < size {
		_, buf, _ = bytes.Cut(buf, []byte{'\n'}) // a line cut in two
	}
	return last(plain(buf), maxLines, maxBytes), nil
}

// plain takes the heads off all lines and joins the pieces of long ones.
func plain(log []byte) []byte {
	var out []byte
	for line := range bytes.Lines(log) {
		parts := bytes.SplitN(line, []byte{' '}, 4)
		if len(parts) < 4 {
			continue
		}
		text := parts[3]
		if bytes.Equal(parts[2], []byte{'P'}) {
			text = bytes.TrimSuffix(text, []byte{'\n'})
		}
		out = append(out, text...)
	}
	return out
}

func last(text []byte, maxLines, maxBytes int) string {
	text = text[max(0, len(text)-maxBytes):]
	start := len(bytes.TrimSuffix(text, []byte{'\n'}))
	for range maxLines {
		start = bytes.LastIndexByte(text[:start], '\n')
		if start < 0 {
			return string(text)
		}
	}
	return string(text[start+1:])
}
