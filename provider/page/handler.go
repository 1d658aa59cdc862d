package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

// policy lets the page load what comes from its own origin only, and nothing that is
// written into it. "sandbox" is left out, as it would cut the page off from its origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	// fresh is how long a state is good for all who look, and the least time between two
	// events.
	fresh = time.Second
	// heartbeat is how often an idle stream says that it lives, so that proxies keep it.
	heartbeat = 15 * time.Second
	// maxStreams is how many may follow events at a time; others ask now and then.
	maxStreams = 64
)

// Handler serves the page and its data below a prefix that has been taken away:
// "" (the page), "page.js", "api/state", "api/events".
type Handler struct {
	source  Source
	files   http.Handler
	streams chan struct{}

	mu    sync.Mutex
	at    time.Time
	state State
}

// NewHandler makes the page of a source.
func NewHandler(source Source) (*Handler, error) {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, fmt.Errorf("opening the page's files: %w", err)
	}
	return &Handler{source: source, files: http.FileServerFS(files), streams: make(chan struct{}, maxStreams)}, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, "/") {
	case "api/state":
		h.serveState(w, r)
	case "api/events":
		h.serveEvents(w, r)
	default:
		h.files.ServeHTTP(w, r)
	}
}

// view is the current view of a namespace.
func (h *Handler) view(namespace string) View {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.at.IsZero() || now.Sub(h.at) >= fresh {
		h.state, h.at = h.source.State(), now
	}
	return Build(h.state, namespace, now)
}

func (h *Handler) serveState(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(h.view(r.URL.Query().Get("namespace"))) // the client has gone
}

// serveEvents sends the view, and again whenever something in it has changed.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		http.Error(w, "too many follow this page: ask now and then", http.StatusServiceUnavailable)
		return
	}
	namespace := r.URL.Query().Get("namespace")
	w.Header().Set("Content-Type", "text/event-stream")
	stream := http.NewResponseController(w)
	ticker := time.NewTicker(fresh)
	defer ticker.Stop()
	var last [sha256.Size]byte
	for said := time.Now(); ; {
		text, sum, err := event(h.view(namespace))
		switch {
		case err != nil:
			return
		case sum != last:
			last = sum
		case time.Since(said) > heartbeat:
			text = []byte(": alive\n\n")
		default:
			text = nil
		}
		if text != nil {
			said = time.Now()
			if _, err := w.Write(text); err != nil || stream.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// event is a view as an event, and a sum of all in it that is not merely the time.
func event(v View) ([]byte, [sha256.Size]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encoding the page's data: %w", err)
	}
	v.At, v.Listed = time.Time{}, time.Time{}
	steady, err := json.Marshal(v)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encoding the page's data: %w", err)
	}
	return bytes.Join([][]byte{[]byte("data: "), data, []byte("\n\n")}, nil), sha256.Sum256(steady), nil
}
