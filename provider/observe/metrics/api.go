package metrics

import (
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// API is a transport to the API server whose writes are counted; reads are in
// client-go's own rest_client_requests_total.
func (p *Process) API(next http.RoundTripper) http.RoundTripper {
	if p == nil {
		return next
	}
	return &api{next: next, metrics: p, paths: &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}}
}

type api struct {
	next    http.RoundTripper
	metrics *Process
	paths   *request.RequestInfoFactory
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return a.next.RoundTrip(r)
	}
	resource, verb := a.names(r)
	began := time.Now()
	response, err := a.next.RoundTrip(r)
	code := "none"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
		a.metrics.apiSeconds.WithLabelValues(resource, verb).Observe(time.Since(began).Seconds())
	}
	a.metrics.apiWrites.WithLabelValues(resource, verb, code).Inc()
	return response, err
}

// names are a request's resource and verb.
func (a *api) names(r *http.Request) (resource, verb string) {
	info, err := a.paths.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		return "other", "other"
	}
	resource = info.Resource
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	return resource, info.Verb
}

// WrappedRoundTripper lets client-go find the transport beneath.
func (a *api) WrappedRoundTripper() http.RoundTripper { return a.next }
