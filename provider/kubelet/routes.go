package kubelet

import (
	"net/http"
	"net/http/pprof"
	"path"
	"strings"

	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// Route is one thing that the node's port serves, and who may have it. What is
// not in the table is not served.
type Route struct {
	Methods []string
	// Path is a pattern of http.ServeMux.
	Path string
	// Verb is what the caller must be allowed to do; empty for the request's
	// own ("get" for GET, "create" for POST).
	Verb string
	// Subresources are those of the node (nodes/proxy, …) of which the caller
	// must be allowed one; kubelet's, see
	// https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/.
	Subresources []string

	handler http.Handler
}

// Routes are all that the node's port serves.
func Routes() []Route { return routes(handlers{}) }

// handlers answer the routes.
type handlers struct {
	healthz, readyz, metrics  http.Handler
	pods, runningPods, logs   http.Handler
	summary, resource         http.Handler
	exec, attach, portForward http.Handler
	page                      http.Handler
}

// The subresources of a node that open a route.
const (
	proxy       = "proxy"
	podsRight   = "pods"
	healthRight = "healthz"
	statsRight  = "stats"
	metricRight = "metrics"
)

// routes is the table. To run something in a pod one must be allowed to create,
// whatever the method: a WebSocket begins with GET, and with kubelet the right
// to get nodes/proxy, which many a monitoring agent has, is the right to run
// anything in any pod. What is a namespace's is bounded, all of it together.
func routes(h handlers) []Route {
	get, stream := []string{http.MethodGet}, []string{http.MethodGet, http.MethodPost}
	table := []Route{
		{Methods: get, Path: "/healthz", Subresources: []string{healthRight, proxy}, handler: h.healthz},
		{Methods: get, Path: "/readyz", Subresources: []string{healthRight, proxy}, handler: h.readyz},
		{Methods: get, Path: "/metrics", Subresources: []string{metricRight}, handler: h.metrics},
		{Methods: get, Path: "/debug/pprof/{$}", Subresources: []string{proxy}, handler: http.HandlerFunc(pprof.Index)},
		{Methods: get, Path: "/debug/pprof/{name}", Subresources: []string{proxy}, handler: http.HandlerFunc(profile)},
		{Methods: get, Path: "/pods", Subresources: []string{podsRight, proxy}, handler: h.pods},
		{Methods: get, Path: "/runningpods", Subresources: []string{podsRight, proxy}, handler: h.runningPods},
		{Methods: get, Path: "/runningpods/{$}", Subresources: []string{podsRight, proxy}, handler: h.runningPods},
		{Methods: get, Path: "/containerLogs/{namespace}/{pod}/{container}", Subresources: []string{proxy}, handler: h.logs},
		{Methods: get, Path: pagePath, Subresources: []string{proxy}, handler: http.HandlerFunc(toPage)},
		{Methods: get, Path: pagePath + "/{path...}", Subresources: []string{proxy}, handler: h.page},
		{Methods: get, Path: "/stats/summary", Subresources: []string{statsRight}, handler: h.summary},
		{Methods: get, Path: "/stats/summary/{$}", Subresources: []string{statsRight}, handler: h.summary},
		{Methods: get, Path: "/metrics/resource", Subresources: []string{metricRight}, handler: h.resource},
		{Methods: get, Path: "/metrics/resource/{$}", Subresources: []string{metricRight}, handler: h.resource},
		{Methods: stream, Path: "/exec/{namespace}/{pod}/{container}", Verb: "create", Subresources: []string{proxy}, handler: h.exec},
		{Methods: stream, Path: "/attach/{namespace}/{pod}/{container}", Verb: "create", Subresources: []string{proxy}, handler: h.attach},
		{Methods: stream, Path: "/portForward/{namespace}/{pod}", Verb: "create", Subresources: []string{proxy}, handler: h.portForward},
	}
	crowd := &crowd{}
	for i := range table {
		if strings.Contains(table[i].Path, "{namespace}") {
			table[i].handler = crowd.bound(table[i].handler)
		}
	}
	return table
}

// mux joins the table to the caller's rights. Whoever asks for something else
// needs the right to all (nodes/proxy) to learn that it is not there. That holds for paths
// like //pods too, from which http.ServeMux would redirect anybody.
func mux(table []Route, who *access) http.Handler {
	m := http.NewServeMux()
	for _, r := range table {
		for _, method := range r.Methods {
			m.Handle(method+" "+r.Path, who.require(r, r.handler))
		}
	}
	unknown := who.require(Route{Subresources: []string{proxy}}, http.HandlerFunc(api.NotFound))
	m.Handle("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") {
			unknown.ServeHTTP(w, r)
			return
		}
		m.ServeHTTP(w, r)
	})
}

// pagePath is where the node's page is.
const pagePath = "/gangline"

// toPage sends on to the page, by a path that is relative as whoever asks may come through
// a proxy that has a prefix of its own.
func toPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", path.Base(pagePath)+"/")
	w.WriteHeader(http.StatusMovedPermanently)
}

// profile answers for one of the runtime's profiles.
func profile(w http.ResponseWriter, r *http.Request) {
	timed := map[string]http.HandlerFunc{
		"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	}
	if f, ok := timed[r.PathValue("name")]; ok {
		f(w, r)
		return
	}
	pprof.Index(w, r)
}
