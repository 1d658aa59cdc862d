package rest

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
)

// answering gives one answer to all questions.
type answering struct {
	status int
	body   []byte
}

func (a answering) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.body)), Request: q}, nil
}

// FuzzDeeds: whatever slurmrestd answers to a submission, a cancellation, a question for its
// clock or its version, a job is one with a number, a refusal says why, and neither is told
// without the word for it.
func FuzzDeeds(f *testing.F) {
	for _, seed := range []struct {
		status int
		body   string
	}{
		{200, `{"job_id":7,"errors":[]}`}, {500, `{"errors":[{"error_code":2042,"error":"Something"}],"job_id":7}`},
		{200, `{"result":{"job_id":7},"job_id":0}`}, {200, `{"job_id":-7}`}, {200, `{"job_id":{"set":true,"number":9223372036854775807}}`},
		{200, `{"job_id":{"set":true,"infinite":true,"number":7}}`}, {500, `{"errors":[{"error_code":2000,"error":"Invalid partition name specified"}]}`},
		{400, `{"errors":[{"description":"Unknown key","error_code":9001}]}`}, {200, `{"errors":[],"status":[{"error":{"string":"Access/permission denied","code":2002}}]}`},
		{200, `{"statistics":{"req_time":1000},"meta":{"Slurm":{"release":"24.05.5"}}}`}, {500, `{"meta":{"slurm":{"release":"x"}},"errors":[{"error_number":-1,"error":"Unspecified error"}]}`},
		{200, `{"pings":[{"hostname":"head","ping":"UP","responding":null}]}`}, {401, "Authentication failure"}, {502, "<html>\xff"}, {304, ""}, {200, ""}, {200, "null"},
	} {
		f.Add(seed.status, []byte(seed.body))
	}
	file := filepath.Join(f.TempDir(), "token")
	require.NoError(f, os.WriteFile(file, []byte(tokenFor(`{"sun":"hpcuser"}`)), 0o600))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		m, err := New(Config{URL: "http://head", TokenFile: file, APIVersion: "v0.0.40", Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		m.client.http.Transport = answering{status, body}

		id, err := m.Submit(t.Context(), request())
		if err == nil {
			n, notANumber := strconv.ParseInt(id, 10, 64)
			require.NoError(t, notANumber)
			assert.Positive(t, n)
			assert.Contains(t, string(body), id, "nobody made it up")
		}
		var rejected *wlm.RejectedError
		if errors.As(err, &rejected) {
			assert.Empty(t, id)
			assert.NotEmpty(t, strings.TrimSpace(rejected.Message))
			assert.Contains(t, []int{200, 400, 404, 422, 500}, status, "a proxy's word is no verdict")
			assert.True(t, bytes.Contains(bytes.ToLower(body), []byte(`error`)), "and nobody made it up")
		}
		if m.Cancel(t.Context(), "", "9") == nil && status != http.StatusOK {
			assert.True(t, bytes.Contains(body, []byte("nvalid job id")) || bytes.Contains(body, []byte("already")) || bytes.ContainsAny(body, `\`), "it is gone: %q", body)
		}
		if name, err := m.Name(t.Context()); err == nil {
			assert.NotEqual(t, "slurm ", name)
		}
		if jobs, err := m.List(t.Context()); err != nil {
			assert.Nil(t, jobs, "an error is no list")
		}
	})
}

// FuzzToken: nothing of a token's file gets into an error, and one that ends later is good.
func FuzzToken(f *testing.F) {
	f.Add("SLURM_JWT="+tokenFor(`{"sun":"ada"}`)+"\n", 1e9)
	f.Add(tokenFor(`{"sun":"ada","exp":4e9}`), 4e9)
	f.Add("s3cret.s3cret", 1e300)
	f.Add("a.!.c", -1e300)
	f.Add(tokenFor(`{"exp":"s3cret"}`), 9.3e18)
	f.Add(tokenFor(`{"sun":7}`), 253402300800.0)
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, text string, ends float64) {
		read, err := parseToken(text)
		if err != nil {
			said := strings.TrimPrefix(err.Error(), "it is no JSON Web Token: ")
			said = strings.TrimPrefix(strings.TrimPrefix(said, "it has "), strconv.Itoa(strings.Count(text, ".")+1))
			assert.Contains(t, []string{" parts, not 3", "its claims are not base64url", "its claims are no JSON object"}, said)
		} else {
			assert.Equal(t, text, read.text)
		}
		exp := strconv.FormatFloat(ends, 'g', -1, 64)
		read, err = parseToken(tokenFor(`{"sun":"ada","exp":` + exp + `}`))
		if err != nil {
			return // not a number of JSON's
		}
		if whole := float64(now.Unix()); ends < whole || ends >= whole+1 {
			assert.Equal(t, ends > whole, now.Before(read.ends), "exp %s is %s", exp, read.ends)
		}
	})
}
