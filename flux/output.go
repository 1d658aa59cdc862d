package flux

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
)

// Output is a piece of what a task has printed. RFC 24.
type Output struct {
	Stream string // "stdout" or "stderr"
	// Ranks are the tasks that printed it: "0", or several that printed the same, "0-3".
	Ranks string
	Data  []byte
	// EOF tells that no more comes from there.
	EOF bool
}

// Output is what a job's tasks print, from the beginning on, until the end of all. A job
// whose output goes to files has none; one that never started is an *Error (ENOENT).
func (h *Handle) Output(ctx context.Context, id JobID) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		for e, err := range h.Watch(ctx, id, LogOutput) {
			if err != nil {
				yield(Output{}, err)
				return
			}
			if e.Name != "data" {
				continue // header, redirect, and the shell's own log
			}
			o, err := readOutput(e.Context)
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

// maxPiece bounds one piece of output: whose job it is has written it.
const maxPiece = 64 << 20

func readOutput(text json.RawMessage) (Output, error) {
	var data struct {
		Stream   string          `json:"stream"`
		Rank     json.RawMessage `json:"rank"`
		Data     *string         `json:"data"`
		EOF      bool            `json:"eof"`
		Encoding string          `json:"encoding"`
		Repeat   int             `json:"repeat"`
	}
	if err := json.Unmarshal(text, &data); err != nil {
		return Output{}, fmt.Errorf("reading a job's output: %w", err)
	}
	o := Output{Stream: data.Stream, Ranks: string(bytes.Trim(data.Rank, `"`)), EOF: data.EOF}
	if data.Data == nil {
		return o, nil
	}
	o.Data = []byte(*data.Data)
	if data.Encoding == "base64" {
		decoded, err := base64.StdEncoding.DecodeString(*data.Data)
		if err != nil {
			return Output{}, fmt.Errorf("reading a job's output: %w", err)
		}
		o.Data = decoded
	}
	if data.Repeat > 1 && len(o.Data) > maxPiece/data.Repeat {
		return Output{}, fmt.Errorf("reading a job's output: %d bytes that are repeated %d times are more than %d", len(o.Data), data.Repeat, maxPiece)
	}
	if data.Repeat > 1 {
		o.Data = bytes.Repeat(o.Data, data.Repeat)
	}
	return o, nil
}
