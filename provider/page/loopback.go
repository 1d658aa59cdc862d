package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// CheckLoopback says what is wrong with an address to serve the page at without asking
// who looks: it must be this machine's loopback, as an IP and a port.
func CheckLoopback(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no IP and port, as in 127.0.0.1:10280", address)
	}
	if !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s is not loopback: whoever reaches it would see the page; elsewhere it is behind the node's own port, at /gangline/", address)
	}
	return nil
}

// local lets those through only who name the page by a loopback address: a web site that
// has its name point to 127.0.0.1 must not read it in a visitor's browser.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
			http.Error(w, "this page is for loopback addresses only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeLoopback serves the page at a loopback address until the context ends.
func ServeLoopback(ctx context.Context, address string, page http.Handler) error {
	if err := CheckLoopback(address); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	const headerTimeout, idleTimeout = 10 * time.Second, 90 * time.Second
	server := &http.Server{
		Handler: local(page), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page on %s: %w", address, err)
	}
	return nil
}
