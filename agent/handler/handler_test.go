package handler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/agent/handler"
	"github.com/gangline/gangline/agent/probe"
)

// local is a handler of a pod at 127.0.0.1.
var local = handler.Handler{Address: "127.0.0.1"}

func once(h corev1.ProbeHandler) corev1.Probe {
	return corev1.Probe{ProbeHandler: h, TimeoutSeconds: 1}
}

func portOf(t *testing.T, address string) intstr.IntOrString {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return intstr.FromInt(port)
}

// closedPort is one on which nobody listens.
func closedPort(t *testing.T) intstr.IntOrString {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return portOf(t, l.Addr().String())
}

func TestHTTPGet(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(path string, code int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	answer("/good", 200, "fine")
	answer("/bad", 503, "not for all eyes")
	answer("/unchanged", 304, "")
	mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/check", func(w http.ResponseWriter, r *http.Request) {
		ok := r.Host == "model.example" && r.Header.Get("X-Token") == "a" && r.URL.RawQuery == "deep=1" &&
			r.Header.Get("Accept") == "*/*" && strings.HasPrefix(r.Header.Get("User-Agent"), "kube-probe/") && r.ProtoMajor == 1
		if !ok {
			w.WriteHeader(400)
		}
	})
	mux.HandleFunc("/two", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(400)
		}
	})
	plain := httptest.NewUnstartedServer(mux)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	two := corev1.HTTPProtocolHTTP2

	for sentence, c := range map[string]struct {
		action  corev1.HTTPGetAction
		outcome probe.Outcome
		message string
	}{
		"200 is a success": {corev1.HTTPGetAction{Path: "/good"}, probe.Success, ""},
		"304 is a warning": {corev1.HTTPGetAction{Path: "/unchanged"}, probe.Warning, "Probe terminated redirects"},
		"503 is a failure, of which the body is kept": {corev1.HTTPGetAction{Path: "/bad"}, probe.Failure, "HTTP probe failed with statuscode: 503"},
		"a redirect on the same host is followed":     {corev1.HTTPGetAction{Path: "/here"}, probe.Success, ""},
		"one to another host is a warning":            {corev1.HTTPGetAction{Path: "/there"}, probe.Warning, "Probe terminated redirects"},
		"an endless one is a failure":                 {corev1.HTTPGetAction{Path: "/round"}, probe.Failure, "stopped after 10 redirects"},
		"no answer in time is a failure":              {corev1.HTTPGetAction{Path: "/slow"}, probe.Failure, "context deadline exceeded"},
		"any certificate will do":                     {corev1.HTTPGetAction{Path: "/good", Scheme: corev1.URISchemeHTTPS, Port: portOf(t, secure.Listener.Addr().String())}, probe.Success, ""},
		"nobody listens":                              {corev1.HTTPGetAction{Path: "/good", Port: closedPort(t)}, probe.Failure, "connection refused"},
		"a port that has no number cannot be asked":   {corev1.HTTPGetAction{Port: intstr.FromString("http")}, probe.Unknown, `port "http" not found`},
		"a host may be given":                         {corev1.HTTPGetAction{Path: "/good", Host: "localhost"}, probe.Success, ""},
		"HTTP/2 without TLS where it is asked for":    {corev1.HTTPGetAction{Path: "/two", Protocol: &two}, probe.Success, ""},
		"headers, the host and the query are the probe's": {corev1.HTTPGetAction{Path: "/check?deep=1", HTTPHeaders: []corev1.HTTPHeader{
			{Name: "Host", Value: "model.example"}, {Name: "X-Token", Value: "a"},
		}}, probe.Success, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.action.Port == (intstr.IntOrString{}) {
				c.action.Port = portOf(t, plain.Listener.Addr().String())
			}
			r := local.Probe(t.Context(), once(corev1.ProbeHandler{HTTPGet: &c.action}))
			assert.Equal(t, c.outcome, r.Outcome, r.Message)
			assert.Contains(t, r.Message, c.message)
			assert.NotContains(t, r.Message, "not for all eyes")
		})
	}
}

func TestTCPSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	try := func(a corev1.TCPSocketAction) probe.Result {
		return local.Probe(t.Context(), once(corev1.ProbeHandler{TCPSocket: &a}))
	}
	assert.Equal(t, probe.Result{Outcome: probe.Success}, try(corev1.TCPSocketAction{Port: portOf(t, l.Addr().String())}))
	refused := try(corev1.TCPSocketAction{Port: closedPort(t)})
	assert.Equal(t, probe.Failure, refused.Outcome)
	assert.Contains(t, refused.Message, "connection refused")
	assert.Equal(t, probe.Failure, try(corev1.TCPSocketAction{Host: "no.such.host.invalid", Port: intstr.FromInt(1)}).Outcome)
	assert.Equal(t, probe.Result{Outcome: probe.Unknown, Message: "invalid port number: 70000"}, try(corev1.TCPSocketAction{Port: intstr.FromInt(70000)}))
}

func TestExec(t *testing.T) {
	command := once(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"check", "it"}}})
	for sentence, c := range map[string]struct {
		exec  handler.Exec
		want  probe.Result
		tries int32
	}{
		"exit code 0 is a success": {
			func(context.Context, []string, io.Writer) (int, error) { return 0, nil },
			probe.Result{Outcome: probe.Success}, 1,
		},
		"another is a failure with what was printed": {
			func(_ context.Context, argv []string, w io.Writer) (int, error) {
				fmt.Fprintf(w, "%q is ill", argv)
				return 3, nil
			},
			probe.Result{Outcome: probe.Failure, Message: `["check" "it"] is ill`}, 1,
		},
		"output is cut": {
			func(_ context.Context, _ []string, w io.Writer) (int, error) {
				for range 100 {
					_, _ = io.WriteString(w, strings.Repeat("x", 1000))
				}
				return 1, nil
			},
			probe.Result{Outcome: probe.Failure, Message: strings.Repeat("x", 10<<10)}, 1,
		},
		"what takes too long is a failure": {
			func(ctx context.Context, _ []string, _ io.Writer) (int, error) { <-ctx.Done(); return 143, nil },
			probe.Result{Outcome: probe.Failure, Message: `command timed out: "check it" timed out after 1s`}, 1,
		},
		"what cannot be started is tried again, and then is unknown": {
			func(context.Context, []string, io.Writer) (int, error) { return 0, errors.New("not found") },
			probe.Result{Outcome: probe.Unknown, Message: "not found"}, 3,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var tries atomic.Int32
			h := handler.Handler{Exec: func(ctx context.Context, argv []string, w io.Writer) (int, error) {
				tries.Add(1)
				return c.exec(ctx, argv, w)
			}}
			assert.Equal(t, c.want, h.Probe(t.Context(), command))
			assert.Equal(t, c.tries, tries.Load())
		})
	}
}

func TestHook(t *testing.T) {
	asked := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.WriteHeader(500)
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	require.NoError(t, err)
	port := portOf(t, to.Host)

	for scheme, why := range map[corev1.URIScheme]string{"HTTP": "any answer will do", "HTTPS": "a server that speaks no TLS is asked without"} {
		err := local.Hook(t.Context(), corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/drain", Port: port, Scheme: scheme, HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}},
		}})
		require.NoError(t, err, why)
		r := <-asked
		assert.Equal(t, "/drain", r.URL.Path)
		assert.Equal(t, scheme == "HTTP", r.Header.Get("Authorization") != "", "no token without TLS that was to have it")
	}
	assert.Error(t, local.Hook(t.Context(), corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: closedPort(t)}}))

	code := 0
	h := handler.Handler{Exec: func(_ context.Context, _ []string, w io.Writer) (int, error) {
		_, _ = io.WriteString(w, "no")
		return code, nil
	}}
	command := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}
	require.NoError(t, h.Hook(t.Context(), command))
	code = 2
	assert.EqualError(t, h.Hook(t.Context(), command), `it ended with exit code 2: "no"`)

	require.NoError(t, local.Hook(t.Context(), corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, local.Hook(ctx, corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3600}}), context.DeadlineExceeded)
	assert.Error(t, local.Hook(t.Context(), corev1.LifecycleHandler{}))
}
