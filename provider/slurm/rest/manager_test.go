package rest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

func tokenFor(claims string) string {
	return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
}

// server stands in for slurmrestd: it answers with what is set for "METHOD /path", and
// keeps what it was asked.
type server struct {
	mu      sync.Mutex
	answers map[string]string // a status, a space and a body
	asked   []string
	headers http.Header
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.headers = r.Header
	answer, known := s.answers[r.Method+" "+r.URL.RequestURI()]
	if !known {
		answer, known = s.answers[r.Method+" "+r.URL.Path]
	}
	if !known {
		http.Error(w, "Unable find requested URL. Please view /openapi/v3 for API reference.", http.StatusNotFound)
		return
	}
	var status int
	_, _ = fmt.Sscanf(answer, "%d", &status)
	_, body, _ := strings.Cut(answer, " ")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *server) set(key, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[key] = answer
}

func newTestManager(t *testing.T, answers map[string]string, change ...func(*Config)) (*Manager, *server) {
	t.Helper()
	s := &server{answers: answers}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(tokenFor(`{"sun":"hpcuser"}`)), 0o600))
	cfg := Config{URL: web.URL, TokenFile: file, APIVersion: "v0.0.38", Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	m, err := New(cfg)
	require.NoError(t, err)
	return m, s
}

const unspecifiedBody = `{"errors":[{"description":"Failed while looking for jobs","error_number":-1,"error":"Unspecified error","source":"slurm_load_jobs"}],"jobs":[]}`

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"no URL":                      {Config{}, "http://HOST:PORT"},
		"a URL without a scheme":      {Config{URL: "head:6820"}, "http://HOST:PORT"},
		"a URL with a password":       {Config{URL: "http://a:b@head:6820"}, "http://HOST:PORT"},
		"a CA file that is not there": {Config{URL: "https://head", CAFile: "/nonexistent"}, "reading the CA"},
		"a CA file without one":       {Config{URL: "https://head", CAFile: "doc.go"}, "no certificate"},
		"a version that is not known": {Config{URL: "http://head", APIVersion: "v0.0.36"}, "v0.0.38 v0.0.39"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(tt.cfg)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestNothingIsConcludedFromAnAnswerThatSaysNothing(t *testing.T) {
	tests := map[string]struct{ answer, ping, want string }{
		"an unspecified error, and the ping too": {"500 " + unspecifiedBody, "500 " + unspecifiedBody, "slurmctld is down, or does not accept the token"},
		"an unspecified error, but slurmctld is up": {"500 " + unspecifiedBody, `200 {"pings":[{"hostname":"head","ping":"UP"}]}`,
			"slurmctld on head is up, so it may be the token"},
		"an unspecified error, and slurmctld is down": {"500 " + unspecifiedBody, `200 {"pings":[{"hostname":"head","responding":false}]}`,
			"slurmctld does not answer"},
		"no authentication":        {"401 Authentication failure", "", "renew it"},
		"a proxy's page":           {"502 <html>Bad Gateway</html>", "", "HTTP status 502: <html>"},
		"another server's page":    {"200 <html>Hello</html>", "", "not understood"},
		"an error with status 200": {`200 {"errors":[{"error_number":2005,"error":"Socket timed out"}],"jobs":[]}`, "", "Socket timed out"},
		"a list of something else": {`200 {"errors":[],"jobs":[{"job_id":"x"}]}`, "", "not understood"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, _ := newTestManager(t, map[string]string{"GET /slurm/v0.0.38/jobs/": tt.answer, "GET /slurm/v0.0.38/ping/": tt.ping})
			jobs, err := m.List(t.Context())
			assert.Nil(t, jobs)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// A token goes nowhere but where the configuration says, whatever the server there says.
func TestNoRedirectionIsFollowed(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var asked atomic.Int32
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				_, _ = io.WriteString(w, `{"jobs":[],"job_id":7,"errors":[]}`)
			}))
			t.Cleanup(other.Close)
			web := httptest.NewServer(http.RedirectHandler(other.URL, status))
			t.Cleanup(web.Close)
			m, _ := newTestManager(t, nil, func(c *Config) { c.URL = web.URL })
			_, err := m.List(t.Context())
			assert.ErrorContains(t, err, fmt.Sprintf("HTTP status %d", status))
			_, err = m.Submit(t.Context(), request())
			assert.ErrorContains(t, err, fmt.Sprintf("HTTP status %d", status))
			assert.ErrorContains(t, m.Cancel(t.Context(), "", "7"), fmt.Sprintf("HTTP status %d", status))
			assert.Zero(t, asked.Load(), "who answers elsewhere gets no token")
		})
	}
}

func TestTheIDIsTheTruthAboutASubmission(t *testing.T) {
	const errorsFirst = `{"errors":[{"error_code":2042,"error":"Something about limits"}],`
	for name, answer := range map[string]string{
		"alone":                                `200 {"job_id":7,"errors":[]}`,
		"beside errors":                        `200 ` + errorsFirst + `"job_id":7}`,
		"beside errors and another status":     `500 ` + errorsFirst + `"job_id":7}`,
		"as v0.0.40 has it":                    `200 {"result":{"job_id":7},"job_id":0,"errors":[]}`,
		"with what a site's plugin has to say": `200 {"job_id":7,"job_submit_user_msg":"be brief","errors":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m, _ := newTestManager(t, map[string]string{"POST /slurm/v0.0.38/job/submit": answer},
				func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
			id, err := m.Submit(t.Context(), request())
			require.NoError(t, err)
			assert.Equal(t, "7", id)
			assert.Equal(t, strings.Contains(answer, "Something") || strings.Contains(answer, "brief"), strings.Contains(log.String(), "remark"))
		})
	}
}

// The first four were recorded from slurmrestd of Slurm 22.05.8.
func TestARefusalIsToldFromAFailureToAsk(t *testing.T) {
	tests := map[string]struct{ answer, refused string }{
		"no such partition": {`500 {"errors":[{"error_code":2000,"error":"Invalid partition name specified"}]}`, "Invalid partition name specified"},
		"too large a node":  {`500 {"errors":[{"error_code":2014,"error":"Requested node configuration is not available"}]}`, "Requested node configuration is not available"},
		"an unknown key": {`400 {"errors":[{"description":"Unknown key \"nope\"","source":"hsearch_r"},{"error_code":9001,"error":"Failure during parsing"}]}`,
			`slurmrestd does not take the request: Unknown key "nope"; Failure during parsing`},
		"no controller, or a bad token": {`500 {"errors":[{"error_code":-1,"error":"Unspecified error"}]}`, ""},
		"as newer versions say it": {`500 {"errors":[{"description":"Batch job submission failed","error_number":2015,"error":"Invalid account","source":"slurm_submit_batch_job()"}]}`,
			"Batch job submission failed: Invalid account"},
		"a controller that is not reached": {`502 {"errors":[{"description":"x","error_number":1800,"error":"Unable to contact slurm controller (connect failure)"}]}`, ""},
		"the same with another status":     {`500 {"errors":[{"error_number":1800,"error":"Unable to contact slurm controller (connect failure)"}]}`, ""},
		"an answer that came too late":     {`500 {"errors":[{"error_number":5004,"error":"Socket timed out on send/recv operation"}]}`, ""},
		"no authentication":                {"401 Authentication failure", ""},
		"a proxy's word":                   {"400 Bad Request", ""},
		"no id and no error":               {`200 {"errors":[]}`, ""},
		"a version that has gone":          {"404 Unable find requested URL", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, _ := newTestManager(t, map[string]string{"POST /slurm/v0.0.38/job/submit": tt.answer})
			_, err := m.Submit(t.Context(), request())
			require.Error(t, err)
			var rejected *wlm.RejectedError
			require.Equal(t, tt.refused != "", errors.As(err, &rejected), "%v", err)
			if rejected != nil {
				assert.Equal(t, tt.refused, rejected.Message)
			}
		})
	}
	m, _ := newTestManager(t, nil)
	r := request()
	r.Account = "a\nb"
	var rejected *wlm.RejectedError
	_, err := m.Submit(t.Context(), r)
	assert.ErrorAs(t, err, &rejected)
}

func TestASubmissionThatIsNotAnsweredInTimeMayHaveBeenAccepted(t *testing.T) {
	asked := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is seen
		close(asked)
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	m, _ := newTestManager(t, nil, func(c *Config) { c.URL = web.URL })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := m.Submit(ctx, request())
	assert.ErrorIs(t, err, context.Canceled)
	var rejected *wlm.RejectedError
	assert.NotErrorAs(t, err, &rejected)
}

func TestAnUnchangedQueueIsNotSentAgain(t *testing.T) {
	const jobs = "GET /slurm/v0.0.38/jobs/"
	const running = `200 {"jobs":[{"job_id":7,"name":"pi-1","user_name":"hpcuser","job_state":"RUNNING","nodes":"n1"}],"errors":[]}`
	m, s := newTestManager(t, map[string]string{jobs: running, "GET /slurm/v0.0.38/diag/": `200 {"statistics":{"req_time":1000},"errors":[]}`})
	list := func(want ...string) {
		t.Helper()
		got, err := m.List(t.Context())
		require.NoError(t, err)
		require.Len(t, got, 1)
		assert.Equal(t, wlm.PhaseRunning, got[0].Phase)
		assert.Equal(t, want, s.take())
	}
	list(jobs)
	list("GET /slurm/v0.0.38/diag/", jobs) // a list does not tell its time, so the clock comes before the next
	s.set(jobs+"?update_time=1000", "304 ")
	list(jobs + "?update_time=1000")
	list(jobs + "?update_time=1000")

	s.set(jobs+"?update_time=1000", running) // something has changed
	s.set("GET /slurm/v0.0.38/diag/", `200 {"statistics":{"req_time":1010},"errors":[]}`)
	list(jobs + "?update_time=1000")
	list("GET /slurm/v0.0.38/diag/", jobs+"?update_time=1000")
	s.set(jobs+"?update_time=1010", "304 ")
	list(jobs + "?update_time=1010")

	s.set(jobs+"?update_time=1010", "500 "+unspecifiedBody)
	_, err := m.List(t.Context())
	assert.Error(t, err, "an error is no list")
	s.take()
	s.set(jobs+"?update_time=1010", "304 ")
	list(jobs + "?update_time=1010")

	last := <-m.jobs
	last.until = time.Now()
	m.jobs <- last
	list(jobs) // nothing is believed for ever
}

func TestAListThatTellsItsTimeNeedsNoClock(t *testing.T) {
	const jobs = "GET /slurm/v0.0.45/jobs/"
	m, s := newTestManager(t, map[string]string{
		jobs:                             "200 " + string(readTestdata(t, "jobs-v0.0.45-from-documents.json")),
		jobs + "?update_time=1796004631": "304 ",
	}, func(c *Config) { c.APIVersion = "v0.0.45" })
	first, err := m.List(t.Context())
	require.NoError(t, err)
	second, err := m.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Equal(t, []string{jobs, jobs + "?update_time=1796004631"}, s.take())
}

func TestTheVersionIsAskedForOnceAndAgainWhenItIsGone(t *testing.T) {
	m, s := newTestManager(t, map[string]string{
		"GET /openapi/v3":          `200 {"paths":{"/slurm/v0.0.40/jobs/":{},"/slurm/v0.0.41/jobs/":{}}}`,
		"GET /slurm/v0.0.41/jobs/": `200 {"jobs":[],"errors":[],"last_update":{"set":true,"number":1}}`,
	}, func(c *Config) { c.APIVersion = "" })
	for range 2 {
		jobs, err := m.List(t.Context())
		require.NoError(t, err)
		assert.Empty(t, jobs)
	}
	s.set("GET /openapi/v3", `200 {"paths":{"/slurm/v0.0.44/jobs/":{}}}`) // slurmrestd was updated
	s.mu.Lock()
	delete(s.answers, "GET /slurm/v0.0.41/jobs/")
	s.answers["GET /slurm/v0.0.44/jobs/"] = `200 {"jobs":[],"errors":[]}`
	s.mu.Unlock()
	_, err := m.List(t.Context())
	assert.ErrorContains(t, err, "version v0.0.41 of slurmrestd's API is not there")
	_, err = m.List(t.Context())
	assert.NoError(t, err)
}

func TestCancellingAJobThatIsGoneIsNoError(t *testing.T) {
	tests := map[string]struct{ answer, want string }{
		"it is cancelled":           {`200 {"errors":[]}`, ""},
		"it never was":              {`500 {"errors":[{"description":"unable to kill JobId=9 with signal 9: Invalid job id specified","error_number":2017,"error":"Invalid job id specified"}]}`, ""},
		"it has ended":              {`500 {"errors":[{"error_number":2021,"error":"Job/step already completing or completed"}]}`, ""},
		"it never was, newer":       {`404 {"errors":[{"error_number":2017,"error":"Invalid job id specified"}]}`, ""},
		"it has ended, for v0.0.42": {`200 {"errors":[],"status":[{"error":{"string":"Job/step already completing or completed","code":2021},"job_id":{"number":9}}]}`, ""},
		"it is another's":           {`500 {"errors":[{"error_number":2002,"error":"Access/permission denied"}]}`, "Access/permission denied"},
		"another's, for v0.0.42":    {`200 {"errors":[],"status":[{"error":{"string":"Access/permission denied","code":2002}}]}`, "Access/permission denied"},
		"nobody knows":              {"500 " + unspecifiedBody, "does not accept the token"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, s := newTestManager(t, map[string]string{"DELETE /slurm/v0.0.38/job/9": tt.answer})
			err := m.Cancel(t.Context(), "", "9")
			if tt.want == "" {
				assert.NoError(t, err)
				assert.Equal(t, []string{"DELETE /slurm/v0.0.38/job/9"}, s.take())
			} else {
				assert.ErrorContains(t, err, tt.want)
			}
			assert.ErrorContains(t, m.Cancel(t.Context(), "", "9/../8"), "no job id")
		})
	}
}

func TestTheNameHasTheVersionEvenWithoutAController(t *testing.T) {
	for name, answer := range map[string]string{
		"up":   `200 {"meta":{"slurm":{"release":"24.05.5"}},"pings":[],"errors":[]}`,
		"down": `500 {"meta":{"Slurm":{"release":"24.05.5"}},"errors":[{"error_number":-1,"error":"Unspecified error"}]}`,
	} {
		m, _ := newTestManager(t, map[string]string{"GET /slurm/v0.0.38/ping/": answer})
		got, err := m.Name(t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, "slurm 24.05.5", got)
	}
	m, _ := newTestManager(t, nil)
	_, err := m.Name(t.Context())
	assert.ErrorContains(t, err, "Slurm's version")
}

func TestTokens(t *testing.T) {
	soon, past := time.Now().Add(time.Minute).Unix(), time.Now().Add(-time.Minute).Unix()
	tests := map[string]struct {
		file string
		want string // in the error; empty for none
	}{
		"bare":                        {tokenFor(fmt.Sprintf(`{"sun":"ada","exp":%d}`, soon)), ""},
		"as scontrol prints it":       {"SLURM_JWT=" + tokenFor(`{"sun":"ada"}`) + "\n", ""},
		"with a fraction of a second": {tokenFor(fmt.Sprintf(`{"sun":"ada","exp":%d.5}`, soon)), ""},
		"one that has expired":        {tokenFor(fmt.Sprintf(`{"sun":"ada","exp":%d}`, past)), "has expired"},
		"a password":                  {"s3cret", "no JSON Web Token"},
		"no base64":                   {"a.!.c", "no JSON Web Token"},
		"no claims":                   {tokenFor("s3cret"), "no JSON Web Token"},
		"nobody's":                    {tokenFor(`{}`), "names no user"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, s := newTestManager(t, map[string]string{"GET /slurm/v0.0.38/jobs/": `200 {"jobs":[],"errors":[]}`})
			require.NoError(t, os.WriteFile(m.cfg.TokenFile, []byte(tt.file), 0o600))
			_, err := m.List(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "ada", s.headers.Get("X-Slurm-User-Name"))
				assert.Equal(t, strings.TrimPrefix(strings.TrimSpace(tt.file), "SLURM_JWT="), s.headers.Get("X-Slurm-User-Token"))
				return
			}
			assert.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "s3cret")
			assert.Empty(t, s.take(), "nothing is sent")
			// Whoever renews the file need tell nobody.
			require.NoError(t, os.WriteFile(m.cfg.TokenFile, []byte(tokenFor(`{"sun":"ada"}`)), 0o600))
			_, err = m.List(t.Context())
			assert.NoError(t, err)
		})
	}
	m, _ := newTestManager(t, nil)
	require.NoError(t, os.Remove(m.cfg.TokenFile))
	_, err := m.List(t.Context())
	assert.ErrorContains(t, err, "reading slurmrestd's token")
}
