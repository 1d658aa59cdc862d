package flux

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
)

// JournalEntry are events of one job.
type JournalEntry struct {
	// ID is NoJob in the entry that divides the past from what follows.
	ID     JobID
	Events []Event
}

// NoJob is the id of no job (FLUX_JOBID_ANY).
const NoJob JobID = 1<<64 - 1

// Journal are the events of all jobs: first those that the jobs that are not over have had
// so far, each job once; then an entry with NoJob; then each event as it happens. Where names
// are given, only events of these names come. The iteration ends with an error only: the
// context's, the connection's, or Flux's. It is for the instance's owner; others get an
// *Error with EPERM.
func (h *Handle) Journal(ctx context.Context, names ...string) iter.Seq2[JournalEntry, error] {
	request := map[string]any{"full": false}
	if len(names) > 0 {
		allow := map[string]int{}
		for _, name := range names {
			allow[name] = 1
		}
		request["allow"] = allow
	}
	answers := h.Stream(ctx, "job-manager.events-journal", "job-manager.events-journal-cancel", request)
	return func(yield func(JournalEntry, error) bool) {
		for message, err := range answers {
			var entry JournalEntry
			if err == nil {
				entry, err = parseJournalEntry(message)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

func parseJournalEntry(message json.RawMessage) (JournalEntry, error) {
	var w struct {
		ID     int64       `json:"id"` // as Flux writes it; that of no job is -1
		Events []jsonEvent `json:"events"`
	}
	if err := json.Unmarshal(message, &w); err != nil {
		return JournalEntry{}, fmt.Errorf("reading the journal of jobs: %w", err)
	}
	entry := JournalEntry{ID: JobID(w.ID)} //nolint:gosec // the same bits
	for _, e := range w.Events {
		entry.Events = append(entry.Events, e.event())
	}
	return entry, nil
}
