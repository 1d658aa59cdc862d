package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// Expected is an error of a library's that belongs to the program's ordinary life.
type Expected struct {
	// Message and Error are the beginning of the line's message, and a part of its error.
	Message, Error string
	// Says is told instead.
	Says string
}

func (e Expected) is(r slog.Record, err string) bool {
	return r.Level >= slog.LevelError && strings.HasPrefix(r.Message, e.Message) && strings.Contains(err, e.Error)
}

// New makes a log that writes in a format, "text" or "json", from a level on.
func New(w io.Writer, format string, level slog.Level, expected ...Expected) (logr.Logger, error) {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: plainErrors}
	var to slog.Handler
	switch format {
	case "text":
		to = slog.NewTextHandler(w, options)
	case "json":
		to = slog.NewJSONHandler(w, options)
	default:
		return logr.Logger{}, fmt.Errorf("--log-format is text or json, not %q", format)
	}
	return logr.FromSlogHandler(handler{to, expected}), nil
}

// plainErrors keeps stacks out of errors, which some libraries' errors print with %+v.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

// handler replaces what is expected.
type handler struct {
	slog.Handler
	expected []Expected
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := errorOf(r)
	for _, e := range h.expected {
		if !e.is(r, err) {
			continue
		}
		if !h.Enabled(ctx, slog.LevelInfo) {
			return nil
		}
		plain := slog.NewRecord(r.Time, slog.LevelInfo, e.Says, r.PC)
		r.Attrs(func(a slog.Attr) bool {
			plain.AddAttrs(a)
			return true
		})
		r = plain
		break
	}
	return h.Handler.Handle(ctx, r)
}

// errorOf is the error that logr adds to a line, "" if there is none.
func errorOf(r slog.Record) string {
	var text string
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			text = err.Error()
		}
		return text == ""
	})
	return text
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.expected}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.expected}
}
