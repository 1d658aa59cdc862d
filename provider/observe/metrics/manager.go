package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// Manager is a workload manager whose calls are counted. It is always a wlm.Historian; of
// one that keeps no history it says so.
func (p *Process) Manager(m wlm.Manager) wlm.Manager {
	if p == nil {
		return m
	}
	return &manager{Manager: m, metrics: p}
}

type manager struct {
	wlm.Manager
	metrics *Process
}

var (
	_ wlm.Historian = (*manager)(nil)
	_ wlm.Notifier  = (*manager)(nil)
)

func (m *manager) count(operation string, began time.Time, err error) {
	count(m.metrics.managerCalls, m.metrics.managerErrors, operation, began, err)
}

func (m *manager) Submit(ctx context.Context, r translate.Request) (string, error) {
	began := time.Now()
	id, err := m.Manager.Submit(ctx, r)
	m.count(opSubmit, began, err)
	return id, err
}

func (m *manager) List(ctx context.Context) ([]wlm.Job, error) {
	began := time.Now()
	jobs, err := m.Manager.List(ctx)
	m.count(opList, began, err)
	switch {
	case err == nil:
		m.metrics.managerUp.Set(1)
		m.metrics.managerAt.SetToCurrentTime()
		m.metrics.listedJobs.Set(float64(len(jobs)))
	case !errors.Is(err, context.Canceled):
		m.metrics.managerUp.Set(0)
	}
	return jobs, err
}

func (m *manager) Cancel(ctx context.Context, user, jobID string) error {
	began := time.Now()
	err := m.Manager.Cancel(ctx, user, jobID)
	m.count(opCancel, began, err)
	return err
}

func (m *manager) Inventory(ctx context.Context) (wlm.Inventory, error) {
	began := time.Now()
	inv, err := m.Manager.Inventory(ctx)
	m.count(opInventory, began, err)
	return inv, err
}

func (m *manager) Name(ctx context.Context) (string, error) {
	began := time.Now()
	name, err := m.Manager.Name(ctx)
	m.count(opName, began, err)
	return name, err
}

// Ended implements wlm.Historian.
func (m *manager) Ended(ctx context.Context, jobs []wlm.JobRef) (map[string]wlm.Job, error) {
	historian, ok := m.Manager.(wlm.Historian)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	began := time.Now()
	ended, err := historian.Ended(ctx, jobs)
	if !errors.Is(err, errors.ErrUnsupported) {
		m.count(opHistory, began, err)
	}
	return ended, err
}

// Changes implements wlm.Notifier. Of a manager that tells of nothing it is nil, in which
// there is never anything.
func (m *manager) Changes(ctx context.Context) <-chan struct{} {
	if n, ok := m.Manager.(wlm.Notifier); ok {
		return n.Changes(ctx)
	}
	return nil
}
