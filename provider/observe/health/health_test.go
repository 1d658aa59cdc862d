package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReadinessSaysWhatIsNotReady(t *testing.T) {
	var away error
	r := &Readiness{}
	synced := NewOnce("the cache is not complete yet")
	r.Add("cache", synced.Check)
	r.Add("workload-manager", func() error { return away })
	ask := func() (int, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Code, w.Body.String()
	}
	code, text := ask()
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "[-]cache: the cache is not complete yet\n[+]workload-manager ok\nnot ready\n", text)

	synced.Done()
	synced.Done()
	code, text = ask()
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "[+]cache ok\n[+]workload-manager ok\nready\n", text)

	away = errors.New("slurmctld does not answer")
	code, text = ask()
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Contains(t, text, "[-]workload-manager: slurmctld does not answer\n")

	w := httptest.NewRecorder()
	Live().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	assert.Equal(t, http.StatusOK, w.Code, "it lives all the same")
}

func TestWithoutAReadinessNothingIsAsked(t *testing.T) {
	var r *Readiness
	r.Add("x", func() error { return errors.New("never") })
	var o *Once
	o.Done()
}
