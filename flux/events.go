package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Event is an entry of a job's eventlog. RFC 18 and 21.
type Event struct {
	Time time.Time
	// Name is e.g. "submit", "alloc", "start", "exception", "finish", "clean".
	Name string
	// Context is what else is said about it; nil for nothing.
	Context json.RawMessage
}

// Exception is the context of an "exception" event. One of severity 0 ends the job.
type Exception struct {
	Type     string `json:"type"`
	Severity int    `json:"severity"`
	Note     string `json:"note"`
}

// Exception reads the context of an "exception" event.
func (e Event) Exception() (Exception, error) {
	var x Exception
	return x, e.read("exception", &x)
}

// Status reads the context of a "finish" event: the highest of the tasks' wait statuses.
func (e Event) Status() (WaitStatus, error) {
	var finish struct {
		Status WaitStatus `json:"status"`
	}
	return finish.Status, e.read("finish", &finish)
}

func (e Event) read(name string, context any) error {
	if e.Name != name {
		return fmt.Errorf("reading an event: it is %q, not %q", e.Name, name)
	}
	if err := json.Unmarshal(e.Context, context); err != nil {
		return fmt.Errorf("reading the context of the event %q: %w", e.Name, err)
	}
	return nil
}

// jsonEvent is an event as Flux writes it.
type jsonEvent struct {
	Timestamp float64         `json:"timestamp"`
	Name      string          `json:"name"`
	Context   json.RawMessage `json:"context"`
}

func (e jsonEvent) event() Event {
	return Event{Time: unixTime(e.Timestamp), Name: e.Name, Context: e.Context}
}

// parseEvents reads lines of an eventlog.
func parseEvents(lines string) ([]Event, error) {
	var events []Event
	for line := range strings.Lines(lines) {
		var e jsonEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("reading an eventlog: %q: %w", line, err)
		}
		events = append(events, e.event())
	}
	return events, nil
}

// unixTime is zero for zero, which stands for a time that is not known.
func unixTime(seconds float64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC()
}

// The eventlogs of a job that Watch knows. Those of the guest exist from the job's start
// on.
const (
	LogMain   = "eventlog"
	LogExec   = "guest.exec.eventlog"
	LogOutput = "guest.output"
)

const flagWaitCreate = 1

// Events are a job's events, those of the past first, until the last, "clean".
func (h *Handle) Events(ctx context.Context, id JobID) iter.Seq2[Event, error] {
	return h.Watch(ctx, id, LogMain)
}

// Watch are the events of one of a job's eventlogs, those of the past first, until it is
// complete. It waits for one that is not there yet; one that never comes is an *Error
// when the job ends.
func (h *Handle) Watch(ctx context.Context, id JobID, log string) iter.Seq2[Event, error] {
	flags := 0
	if log != LogMain {
		flags = flagWaitCreate
	}
	answers := h.Stream(ctx, "job-info.eventlog-watch", "job-info.eventlog-watch-cancel",
		map[string]any{"id": id, "path": log, "flags": flags})
	return func(yield func(Event, error) bool) {
		for message, err := range answers {
			var answer struct {
				Event string `json:"event"`
			}
			var events []Event
			if err == nil {
				err = json.Unmarshal(message, &answer)
			}
			if err == nil {
				events, err = parseEvents(answer.Event)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
