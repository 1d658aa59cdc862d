package page

import (
	"context"
	"errors"
	"fmt"
	"html/template"
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

// Named is the page of one virtual node.
type Named struct {
	Node string
	Page http.Handler
}

// together serves several pages: a list of them, and each below its node's name. A single
// one is served as it is.
func together(pages []Named) http.Handler {
	if len(pages) == 1 {
		return pages[0].Page
	}
	mux := http.NewServeMux()
	var names []string
	for _, p := range pages {
		names = append(names, p.Node)
		mux.Handle("/nodes/"+p.Node+"/", http.StripPrefix("/nodes/"+p.Node, p.Page))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		_ = list.Execute(w, names) // the client has gone
	})
	return mux
}

// list names the virtual nodes of a process.
var list = template.Must(template.New("list").Parse(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Gangline</title></head>
<body><h1>Virtual nodes</h1><ul>{{range .}}<li><a href="nodes/{{.}}/">{{.}}</a></li>{{end}}</ul></body>
</html>
`))

// ServeLoopback serves the pages at a loopback address until the context ends.
func ServeLoopback(ctx context.Context, address string, pages []Named) error {
	if err := CheckLoopback(address); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	const headerTimeout, idleTimeout = 10 * time.Second, 90 * time.Second
	server := &http.Server{
		Handler: local(together(pages)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page on %s: %w", address, err)
	}
	return nil
}
