package handler

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/probe"
)

// The User-Agent begins with what programs know kubelet's requests by.
const (
	probeAgent = "kube-probe/gangline"
	hookAgent  = "kube-lifecycle/gangline"
)

// maxRedirects is net/http's own bound.
const maxRedirects = 10

// get makes a request. An answer from 200 to 399 is a success.
func (h Handler) get(ctx context.Context, a *corev1.HTTPGetAction) (probe.Result, error) {
	request, err := h.request(ctx, a, probeAgent)
	if err != nil {
		return probe.Result{}, err
	}
	client := http.Client{Transport: transport(h2c(a)), CheckRedirect: stayOnHost}
	response, err := client.Do(request)
	if err != nil {
		return failure("%s", err), nil
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	switch {
	case err != nil:
		return probe.Result{}, fmt.Errorf("reading the response: %w", err)
	case response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest:
		// Without the body, which may hold what is not for everybody's eyes
		// (https://issues.k8s.io/99425).
		return failure("HTTP probe failed with statuscode: %d", response.StatusCode), nil
	case response.StatusCode >= http.StatusMultipleChoices:
		return probe.Result{Outcome: probe.Warning, Message: "Probe terminated redirects, Response body: " + string(body)}, nil
	}
	return probe.Result{Outcome: probe.Success}, nil
}

// call makes a hook's request. As with kubelet, any answer will do.
func (h Handler) call(ctx context.Context, a *corev1.HTTPGetAction) error {
	request, err := h.request(ctx, a, hookAgent)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport(false)}
	response, err := client.Do(request)
	if err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		request.URL.Scheme = "http"
		request.Header.Del("Authorization")
		response, err = client.Do(request)
	}
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxOutput))
	return response.Body.Close()
}

func (h Handler) request(ctx context.Context, a *corev1.HTTPGetAction, agent string) (*http.Request, error) {
	port, err := number(a.Port)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(a.Path)
	if err != nil {
		to = &url.URL{Path: a.Path}
	}
	to.Scheme = strings.ToLower(string(a.Scheme))
	if to.Scheme == "" {
		to.Scheme = "http"
	}
	to.Host = net.JoinHostPort(h.host(a.Host), port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range a.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	setDefault(request.Header, "User-Agent", agent)
	setDefault(request.Header, "Accept", "*/*")
	if request.Header.Get("Accept") == "" {
		request.Header.Del("Accept")
	}
	request.Host = request.Header.Get("Host")
	return request, nil
}

func setDefault(h http.Header, name, value string) {
	if _, set := h[name]; !set {
		h.Set(name, value)
	}
}

func h2c(a *corev1.HTTPGetAction) bool {
	return ptr.Deref(a.Protocol, "") == corev1.HTTPProtocolHTTP2
}

// transport connects anew for each request, past the node's proxies, and takes
// any certificate. Without TLS it speaks HTTP/2 only where it is asked to.
func transport(http2 bool) *http.Transport {
	t := &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as with kubelet: the question is whether it answers
		ForceAttemptHTTP2:  true,
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        dialer().DialContext,
	}
	if http2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
		t.Protocols.SetHTTP2(true)
	}
	return t
}

// stayOnHost follows redirects within one host: a probe asks one program.
func stayOnHost(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}
