package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// maxAnswer bounds an answer in bytes; 10,000 jobs take about 31 MB in Slurm 22.05.
const maxAnswer = 1 << 30

// client sends requests to slurmrestd.
type client struct {
	http   *http.Client
	base   string
	shown  string // how the server is named in errors
	tokens tokens
}

func newClient(cfg Config) (*client, error) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	c := &client{shown: cfg.URL, tokens: tokens{file: cfg.TokenFile, user: cfg.User, asker: cfg.Asker}}
	if path, isSocket := strings.CutPrefix(cfg.URL, "unix:"); isSocket {
		path = "/" + strings.TrimLeft(path, "/")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		c.base = "http://localhost"
	} else {
		u, err := url.Parse(cfg.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("the URL of slurmrestd is http://HOST:PORT, https://HOST:PORT or unix:/PATH, not %q", cfg.URL)
		}
		c.base = strings.TrimRight(cfg.URL, "/")
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA of slurmrestd's certificate: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA file %s has no certificate in PEM form", cfg.CAFile)
		}
	}
	c.http = &http.Client{
		Transport: transport,
		Timeout:   cfg.Timeout,
		// A token goes nowhere but where the configuration says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// failure is an answer that says that a request was not carried out.
type failure struct {
	status int
	faults []fault
	text   string // of an answer that is not slurmrestd's own kind
}

func (f *failure) Error() string {
	said := words(f.faults)
	if said == "" && len(f.faults) > 0 {
		said = unspecified
	}
	if said == "" {
		said = f.text
	}
	if said == "" {
		return fmt.Sprintf("slurmrestd answers HTTP status %d without a word", f.status)
	}
	return fmt.Sprintf("slurmrestd answers HTTP status %d: %s", f.status, said)
}

// saysNothing tells of the 500 "Unspecified error", which a bad token, a wrong user and a
// controller that is down have in common. Its description says what was tried, not why it
// failed.
func (f *failure) saysNothing() bool {
	known := func(f fault) bool { return f.number() > 0 }
	return f.status == http.StatusInternalServerError && !slices.ContainsFunc(f.faults, known)
}

// errNotModified is the answer that nothing has changed since the time asked for.
var errNotModified = errors.New("nothing has changed")

// question is a request to slurmrestd.
type question struct {
	as           user
	method, path string
	body         any // nil for none
}

// call sends a request and reads the answer into the given value, also where it is a
// *failure: an answer may be both.
func (c *client) call(ctx context.Context, q question, into any) error {
	request, err := c.request(ctx, q)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("asking slurmrestd at %s: %w", c.shown, err)
	}
	defer response.Body.Close() //nolint:errcheck // it has been read
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer of slurmrestd at %s: %w", c.shown, err)
	}
	if response.StatusCode == http.StatusNotModified {
		return errNotModified
	}
	return readAnswer(response.StatusCode, data, into)
}

func (c *client) request(ctx context.Context, q question) (*http.Request, error) {
	proof, err := c.tokens.of(q.as, time.Now())
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if q.body != nil {
		data, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("encoding a request to slurmrestd: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, reader)
	if err != nil {
		return nil, fmt.Errorf("making a request to slurmrestd: %w", err)
	}
	request.Header.Set("X-SLURM-USER-NAME", proof.user)
	request.Header.Set("X-SLURM-USER-TOKEN", proof.text)
	request.Header.Set("Accept", "application/json")
	if q.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// readAnswer judges an answer. Where its form is not slurmrestd's, nothing is learnt,
// whatever the status.
func readAnswer(status int, data []byte, into any) error {
	if status == http.StatusUnauthorized {
		return errors.New("slurmrestd does not accept the token (HTTP status 401): renew it, and see that its user is the one configured")
	}
	err := json.Unmarshal(data, into)
	if status == http.StatusOK {
		if err != nil {
			return fmt.Errorf("slurmrestd's answer is not understood: %w", err)
		}
		if f, ok := into.(interface{ faults() []fault }); ok && slices.ContainsFunc(f.faults(), fault.isFailure) {
			return &failure{status: status, faults: f.faults()}
		}
		return nil
	}
	f := &failure{status: status}
	if with, ok := into.(interface{ faults() []fault }); ok && err == nil {
		f.faults = with.faults()
	} else {
		const shown = 200
		f.text = strings.ToValidUTF8(strings.TrimSpace(string(data[:min(len(data), shown)])), "\uFFFD")
	}
	return f
}
