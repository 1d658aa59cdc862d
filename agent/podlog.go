package agent

import (
	"context"
	"path/filepath"

	"github.com/gangline/gangline/agent/crilog"
	"github.com/gangline/gangline/provider/spool"
)

// Kubelet's own bounds (containerLogMaxSize, containerLogMaxFiles), for a node
// that names none.
const (
	defaultLogBytes = 10 << 20
	defaultLogFiles = 5
)

// createLog makes the log of a container's run, and removes those that kubectl
// cannot ask for: only the current run's and the one's before are ever shown.
func (p *pod) createLog(ctx context.Context, path string, run int) (log *crilog.Log, err error) {
	if err := crilog.Prune(filepath.Dir(path), run-1); err != nil {
		p.logger.Warn("logs of earlier runs stay", "error", err)
	}
	limits := crilog.Limits{MaxBytes: p.orders.Logs.MaxBytes, MaxFiles: p.orders.Logs.MaxFiles}
	if limits == (crilog.Limits{}) {
		limits = crilog.Limits{MaxBytes: defaultLogBytes, MaxFiles: defaultLogFiles}
	}
	err = spool.WhileFull(ctx, func() (err error) { log, err = crilog.Create(path, limits); return err })
	return log, err
}
