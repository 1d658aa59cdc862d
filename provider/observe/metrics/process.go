package metrics

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/wlm"
)

// Process are the metrics of what the virtual nodes of a process share. Durations are in
// seconds.
type Process struct {
	managerCalls  *prometheus.HistogramVec
	managerErrors *prometheus.CounterVec
	managerUp     prometheus.Gauge
	managerAt     prometheus.Gauge
	listedJobs    prometheus.Gauge

	apiWrites  *prometheus.CounterVec
	apiSeconds *prometheus.HistogramVec

	spoolCalls   *prometheus.HistogramVec
	spoolErrors  *prometheus.CounterVec
	spoolBytes   *prometheus.CounterVec
	scannedFiles prometheus.Counter

	connections prometheus.Gauge
	connects    *prometheus.HistogramVec
}

// The buckets, in seconds: of a call that mostly takes milliseconds, and of one that
// starts programs.
func callBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

func commandBuckets() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
}

// NewProcess registers a process's metrics. The version is that of the program.
func NewProcess(registerer prometheus.Registerer, version string) (*Process, error) {
	m := &maker{registerer: registerer}
	p := newProcess(m, version)
	return p, m.err()
}

func newProcess(m *maker, version string) *Process {
	p := &Process{
		managerCalls: m.histogram("gangline_workload_manager_call_duration_seconds",
			"Calls of the workload manager, by operation: what sbatch, squeue, scancel and their like take, or slurmrestd.", commandBuckets(), "operation"),
		managerErrors: m.counter("gangline_workload_manager_call_errors_total",
			"Calls of the workload manager that failed, by operation and reason: rejected (it understood and refused), unreachable (the way to it is cut), timeout, other.", "operation", "reason"),
		managerUp: m.gauge("gangline_workload_manager_up",
			"1 if the workload manager has answered the last listing of jobs, else 0.").WithLabelValues(),
		managerAt: m.gauge("gangline_workload_manager_last_listing_timestamp_seconds",
			"When the workload manager last answered a listing of jobs.").WithLabelValues(),
		listedJobs: m.gauge("gangline_workload_manager_listed_jobs",
			"Jobs of the node's users in the last listing, whoever submitted them, ended ones included as long as the workload manager shows them.").WithLabelValues(),
		apiWrites: m.counter("gangline_api_writes_total",
			"Writes to the API server, by resource (pods/status, events, leases, ...), verb and HTTP status (none: no answer).", "resource", "verb", "code"),
		apiSeconds: m.histogram("gangline_api_write_duration_seconds",
			"Writes to the API server, by resource and verb, from the request to its answer.", callBuckets(), "resource", "verb"),
		spoolCalls: m.histogram("gangline_spool_call_duration_seconds",
			"Calls of the spool's filesystem, by operation: scan is a look at all reports of a user at once.", callBuckets(), "operation"),
		spoolErrors: m.counter("gangline_spool_call_errors_total",
			"Calls of the spool's filesystem that failed, by operation and reason: unreachable (the way to the site is cut), timeout, other.", "operation", "reason"),
		spoolBytes: m.counter("gangline_spool_bytes_total",
			"Bytes of the spool's files, by direction: read or written.", "direction"),
		scannedFiles: m.counter("gangline_spool_scanned_files_total",
			"Files that scans of the spool have looked at; over the number of scans it is the size of one.").WithLabelValues(),
		connections: m.gauge("gangline_ssh_connections",
			"Connections to agents' SSH services that are open: kubectl exec, attach and port-forward.").WithLabelValues(),
		connects: m.histogram("gangline_ssh_connect_duration_seconds",
			"Connecting to agents' SSH services, by result: ok or error.", callBuckets(), "result"),
	}
	build := m.gauge("gangline_build_info", "Always 1; the labels are the version of gangline-node and that of Go.", "program", "version", "goversion")
	build.WithLabelValues("gangline-node", version, runtime.Version()).Set(1)
	for _, operation := range operations() {
		p.managerCalls.WithLabelValues(operation)
	}
	return p
}

// The operations of a workload manager.
const (
	opSubmit    = "submit"
	opList      = "list"
	opCancel    = "cancel"
	opInventory = "inventory"
	opHistory   = "history"
	opName      = "name"
)

func operations() []string {
	return []string{opSubmit, opList, opCancel, opInventory, opHistory, opName}
}

// reason is an error's, one of a few.
func reason(err error) string {
	var rejected *wlm.RejectedError
	switch {
	case errors.As(err, &rejected):
		return "rejected"
	case errors.Is(err, site.ErrUnreachable):
		return "unreachable"
	case errors.Is(err, site.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "other"
}

// count takes in one call that has just ended. One that its caller gave up is none.
func count(calls *prometheus.HistogramVec, errs *prometheus.CounterVec, operation string, began time.Time, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	calls.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	if err != nil {
		errs.WithLabelValues(operation, reason(err)).Inc()
	}
}
