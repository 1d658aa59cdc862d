package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
)

// reportRetry is the pause after status.json could not be written.
const reportRetry = time.Second

// reporter writes a slot's status. A shared filesystem may hang or fail for a
// while; that must hold up the reports and nothing else.
type reporter struct {
	path    string
	logger  *slog.Logger
	pending chan spool.Status // the newest status that is not written
}

func newReporter(path string, logger *slog.Logger) *reporter {
	return &reporter{path: path, logger: logger, pending: make(chan spool.Status, 1)}
}

// report replaces what is to be written. Only one goroutine may call it.
func (r *reporter) report(s spool.Status) {
	select {
	case <-r.pending:
	default:
	}
	r.pending <- s
}

// close says that there will be no more reports.
func (r *reporter) close() { close(r.pending) }

// run writes until close and the last report's success (nil), or the context's
// end.
func (r *reporter) run(ctx context.Context) error {
	for s := range r.pending {
		if err := r.write(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// write tries until a status is written, the newest there is by then. What keeps it from
// that is said once: the log is on the same filesystem, as a rule.
func (r *reporter) write(ctx context.Context, s spool.Status) error {
	pending, said := r.pending, ""
	for {
		err := spool.Write(r.path, s)
		if err == nil {
			atWrite(s)
			return nil
		}
		if cause := spool.Cause(err).Error(); cause != said {
			r.logger.Error("writing the slot's status, until it succeeds", "error", err)
			said = cause
		}
		retry := time.After(reportRetry)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return err
			case newer, ok := <-pending:
				if !ok {
					pending = nil // a closed channel would end the pause at once
					continue
				}
				s, waiting = newer, false
			case <-retry:
				waiting = false
			}
		}
	}
}

// atWrite is a point of the program: a status was written.
func atWrite(s spool.Status) {
	if s.Pod == nil {
		faults.At(faults.Announced)
		return
	}
	faults.At(faults.StatusWritten)
}
