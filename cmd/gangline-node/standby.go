package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gangline/gangline/provider/observe/health"
)

// standBy answers /healthz and /readyz at an address until it is told to end: whoever stands
// by lives, and is ready to take over. Without an address it does nothing.
func standBy(address string) (end func() error, err error) {
	if address == "" || address == "0" {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening at metricsAddress: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", health.Live())
	mux.Handle("/readyz", &health.Readiness{})
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
