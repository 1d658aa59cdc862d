package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gangline/gangline/provider/observe/health"
	"github.com/gangline/gangline/provider/observe/metrics"
)

// standBy answers /healthz, /readyz and /metrics at an address until it is told to end:
// whoever stands by lives, and is ready to take over as long as he reaches the lease. The
// metrics are a process's that has done nothing yet. Without an address it does nothing.
func standBy(address string, lease health.Check) (end func() error, err error) {
	if address == "" || address == "0" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening at metricsAddress: %w", err)
	}
	ready := &health.Readiness{}
	ready.Add("lease", lease)
	idle := prometheus.NewRegistry() // the leader's own has the same names
	if _, err := metrics.NewProcess(idle, version); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", health.Live())
	mux.Handle("/readyz", ready)
	mux.Handle("/metrics", promhttp.HandlerFor(idle, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		served <- http.ErrServerClosed // for whoever calls it again
		return err
	}, nil
}
