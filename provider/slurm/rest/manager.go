package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// DefaultTimeout is enough for a listing of some 30,000 jobs.
const DefaultTimeout = time.Minute

// Config says how slurmrestd is reached.
type Config struct {
	// URL is http://HOST:PORT, https://HOST:PORT or unix:/PATH.
	URL string
	// TokenFile holds a JSON Web Token, as "scontrol token" makes them. Who renews it
	// in time need tell nobody.
	TokenFile string
	// User is whom the token is for; empty for the user that it names.
	User string
	// CAFile verifies the server's certificate; empty for the system's CAs.
	CAFile string
	// APIVersion is "v0.0.38" or another that Versions has; empty for the newest that
	// both sides know.
	APIVersion string
	// Bin is the directory of Slurm's tools on the HPC nodes; empty for the usual ones.
	Bin string
	// Conf is the path of slurm.conf there; empty for the tools' own default.
	Conf string
	// Timeout bounds each request; DefaultTimeout if zero.
	Timeout time.Duration
	// Log gets what Slurm says beside a job's id; slog.Default() if nil.
	Log *slog.Logger
}

// Versions are the versions of the API that this package knows, the oldest first.
func Versions() []string { return versionNames() }

// Manager is one Slurm cluster as the token's user sees it.
type Manager struct {
	cfg    Config
	client *client

	mu      sync.Mutex
	version *version // nil until it is known

	// jobs holds the last listing; who takes it out is the one who asks for the next.
	jobs chan *listing
}

var _ wlm.Manager = (*Manager)(nil)

// New checks the configuration. It does not speak to slurmrestd.
func New(cfg Config) (*Manager, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, client: c, jobs: make(chan *listing, 1)}
	m.jobs <- &listing{}
	if cfg.APIVersion != "" {
		v, known := findVersion(cfg.APIVersion)
		if !known {
			return nil, fmt.Errorf("version %q of slurmrestd's API is not known; those known are %s", cfg.APIVersion, strings.Join(versionNames(), " "))
		}
		m.version = &v
	}
	return m, nil
}

// call sends a request without content in the version that is spoken.
func (m *Manager) call(ctx context.Context, method, path string, into any) error {
	v, err := m.spoken(ctx)
	if err != nil {
		return err
	}
	return m.callIn(ctx, v, method, path, nil, into)
}

// callIn sends a request in a version. Where nothing follows from the answer, a ping
// helps to tell people why.
func (m *Manager) callIn(ctx context.Context, v version, method, path string, body, into any) error {
	err := m.client.call(ctx, method, "/slurm/"+v.name+path, body, into)
	var failed *failure
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.status == http.StatusNotFound && failed.faults == nil:
		m.forgetVersion()
		return fmt.Errorf("version %s of slurmrestd's API is not there: %w", v.name, err)
	case failed.saysNothing():
		return fmt.Errorf("%w (%s)", err, m.ping(ctx, v))
	}
	return err
}

// ping says what slurmrestd says of slurmctld.
func (m *Manager) ping(ctx context.Context, v version) string {
	var p struct {
		answer
		Pings []struct {
			Hostname   string `json:"hostname"`
			Ping       string `json:"ping"`       // UP, until v0.0.39
			Pinged     string `json:"pinged"`     // UP, until v0.0.44
			Responding *bool  `json:"responding"` // from v0.0.42
		} `json:"pings"`
	}
	if err := m.client.call(ctx, http.MethodGet, "/slurm/"+v.name+"/ping/", nil, &p); err != nil {
		return "it could not ask slurmctld anything: slurmctld is down, or does not accept the token"
	}
	for _, s := range p.Pings {
		if s.Ping == "UP" || s.Pinged == "UP" || (s.Responding != nil && *s.Responding) {
			return "slurmctld on " + s.Hostname + " is up, so it may be the token or its user"
		}
	}
	return "slurmctld does not answer"
}

// spoken is the version that is used: the configured one, or the newest that both
// sides know.
func (m *Manager) spoken(ctx context.Context) (version, error) {
	m.mu.Lock()
	known := m.version
	m.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var document struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err := m.client.call(ctx, http.MethodGet, "/openapi/v3", nil, &document); err != nil {
		return version{}, fmt.Errorf("asking for the versions of the API: %w", err)
	}
	v, err := newestOf(slices.Collect(maps.Keys(document.Paths)))
	if err != nil {
		return version{}, err
	}
	m.cfg.Log.Info("speaking to slurmrestd", "url", m.cfg.URL, "version", v.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = &v
	return v, nil
}

// forgetVersion makes the next request ask again: slurmrestd may have been updated.
func (m *Manager) forgetVersion() {
	if m.cfg.APIVersion != "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = nil
}

// Submit implements wlm.Manager. The job gets an environment of its own and the nodes'
// resource limits. When ctx ends before the answer, the job may exist.
//
// Slurm keeps a record of some jobs it refuses: List then shows an ended job of the
// request's name, although Submit has returned a *wlm.RejectedError.
func (m *Manager) Submit(ctx context.Context, r translate.Request) (string, error) {
	args, err := translate.SbatchArgs(r, filepath.Join(r.Dir, "launch.sh"))
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	o, err := parseOrder(args)
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	v, err := m.spoken(ctx)
	if err != nil {
		return "", err
	}
	base, err := m.baseEnvironment()
	if err != nil {
		return "", err
	}
	body, err := v.body(o, base)
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	var a submitAnswer
	err = m.callIn(ctx, v, http.MethodPost, "/job/submit", body, &a)
	if id := a.jobID(); id != "" { // whatever else it says, there is a job
		if remark := cmp.Or(words(a.Faults), a.Message); remark != "" {
			m.cfg.Log.Info("slurmrestd has a remark", "gang", r.Name, "job", id, "remark", remark)
		}
		return id, nil
	}
	if message, refused := refusal(err); refused {
		return "", &wlm.RejectedError{Message: message}
	}
	if err == nil {
		err = errors.New("slurmrestd took the job but told no id")
	}
	return "", fmt.Errorf("submitting: %w", err)
}

// baseEnvironment is what every job has in its environment: next to nothing.
func (m *Manager) baseEnvironment() ([]string, error) {
	name := m.cfg.User
	if name == "" {
		t, err := readToken(m.cfg.TokenFile, time.Now())
		if err != nil {
			return nil, err
		}
		name = t.user
	}
	path := slurm.SystemPath
	if m.cfg.Bin != "" {
		path = m.cfg.Bin + ":" + path
	}
	env := []string{"PATH=" + path, "USER=" + name, "LOGNAME=" + name, "LANG=C"}
	if u, err := user.Lookup(name); err == nil { // this host need not know the HPC side's users
		env = append(env, "HOME="+u.HomeDir)
	}
	if m.cfg.Conf != "" {
		env = append(env, "SLURM_CONF="+m.cfg.Conf)
	}
	return env, nil
}

// Cancel implements wlm.Manager. Cancelling a heterogeneous job's leader, whose id is
// the job's, cancels all of its components.
func (m *Manager) Cancel(ctx context.Context, _, jobID string) error {
	if jobID == "" || strings.Trim(jobID, "0123456789") != "" {
		return fmt.Errorf("cancelling a job: %q is no job id of Slurm's", jobID)
	}
	var a cancelAnswer
	err := m.call(ctx, http.MethodDelete, "/job/"+jobID, &a)
	if err == nil {
		err = a.failed()
	}
	if err != nil && !slurm.AlreadyGone(err.Error()) {
		return fmt.Errorf("cancelling job %s: %w", jobID, err)
	}
	return nil
}

// Name implements wlm.Manager.
func (m *Manager) Name(ctx context.Context) (string, error) {
	var a answer
	err := m.call(ctx, http.MethodGet, "/ping/", &a)
	if release := a.Meta.Slurm.Release; release != "" { // told even where slurmctld does not answer
		return "slurm " + release, nil
	}
	if err == nil {
		err = errors.New("slurmrestd does not tell it")
	}
	return "", fmt.Errorf("asking for Slurm's version: %w", err)
}
