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
	osuser "os/user"
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
	// in time need tell nobody. With "{user}" in its name there is one for each user.
	TokenFile string
	// User is whom the one token is for; empty for the user that it names.
	User string
	// Asker is the user whose token is used to ask, where there are several.
	Asker string
	// Users are the numbers of those whose jobs are listed; nil, or nobody, for those of
	// the user who asks.
	Users func() []int
	// CAFile verifies the server's certificate; empty for the system's CAs.
	CAFile string
	// APIVersion is "v0.0.38" or another that New knows; empty for the newest that
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

// Manager is one Slurm cluster as the tokens' users see it.
type Manager struct {
	cfg    Config
	client *client

	owners slurm.Owners

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
	if err := cfg.checkUsers(); err != nil {
		return nil, err
	}
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

// ask sends a question of the asker's in the version that is spoken.
func (m *Manager) ask(ctx context.Context, path string, into any) error {
	return m.call(ctx, question{as: asker, method: http.MethodGet, path: path}, into)
}

// call sends a request in the version that is spoken.
func (m *Manager) call(ctx context.Context, q question, into any) error {
	v, err := m.spoken(ctx)
	if err != nil {
		return err
	}
	return m.callIn(ctx, v, q, into)
}

// callIn sends a request in a version. Where nothing follows from the answer, a ping
// helps to tell people why.
func (m *Manager) callIn(ctx context.Context, v version, q question, into any) error {
	q.path = "/slurm/" + v.name + q.path
	err := m.client.call(ctx, q, into)
	var failed *failure
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.status == http.StatusNotFound && failed.faults == nil:
		m.forgetVersion()
		return fmt.Errorf("version %s of slurmrestd's API is not there: %w", v.name, err)
	case failed.saysNothing():
		return fmt.Errorf("%w (%s)", err, m.ping(ctx, v, q.as))
	}
	return err
}

// ping says what slurmrestd says to a user of slurmctld.
func (m *Manager) ping(ctx context.Context, v version, as user) string {
	var p struct {
		answer
		Pings []struct {
			Hostname   string `json:"hostname"`
			Ping       string `json:"ping"`       // UP, until v0.0.39
			Pinged     string `json:"pinged"`     // UP, until v0.0.44
			Responding *bool  `json:"responding"` // from v0.0.42
		} `json:"pings"`
	}
	if err := m.client.call(ctx, question{as: as, method: http.MethodGet, path: "/slurm/" + v.name + "/ping/"}, &p); err != nil {
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
	if err := m.client.call(ctx, question{as: asker, method: http.MethodGet, path: "/openapi/v3"}, &document); err != nil {
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
	proof, err := m.client.tokens.of(user(r.User), time.Now())
	if err != nil {
		return "", fmt.Errorf("submitting: %w", err)
	}
	if proof.user == "root" {
		return "", errors.New("submitting as root: no job runs as root: map the gang to an ordinary HPC user")
	}
	body, err := v.body(o, m.baseEnvironment(proof.user))
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	var a submitAnswer
	err = m.callIn(ctx, v, question{as: user(r.User), method: http.MethodPost, path: "/job/submit", body: body}, &a)
	if id := a.jobID(); id != "" { // whatever else it says, there is a job
		if remark := cmp.Or(words(a.Faults), a.Message); remark != "" {
			m.cfg.Log.Info("slurmrestd has a remark", "allocation", r.Name, "job", id, "remark", remark)
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

// baseEnvironment is what every job of a user's has in its environment: next to nothing.
func (m *Manager) baseEnvironment(name string) []string {
	path := slurm.SystemPath
	if m.cfg.Bin != "" {
		path = m.cfg.Bin + ":" + path
	}
	env := []string{"PATH=" + path, "USER=" + name, "LOGNAME=" + name, "LANG=C"}
	if u, err := osuser.Lookup(name); err == nil { // this host need not know the HPC side's users
		env = append(env, "HOME="+u.HomeDir)
	}
	if m.cfg.Conf != "" {
		env = append(env, "SLURM_CONF="+m.cfg.Conf)
	}
	return env
}

// Cancel implements wlm.Manager. Cancelling a heterogeneous job's leader, whose id is
// the job's, cancels all of its components.
func (m *Manager) Cancel(ctx context.Context, of, jobID string) error {
	if jobID == "" || strings.Trim(jobID, "0123456789") != "" {
		return fmt.Errorf("cancelling a job: %q is no job id of Slurm's", jobID)
	}
	var a cancelAnswer
	err := m.call(ctx, question{as: user(of), method: http.MethodDelete, path: "/job/" + jobID}, &a)
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
	err := m.ask(ctx, "/ping/", &a)
	if release := a.Meta.Slurm.Release; release != "" { // told even where slurmctld does not answer
		return "slurm " + release, nil
	}
	if err == nil {
		err = errors.New("slurmrestd does not tell it")
	}
	return "", fmt.Errorf("asking for Slurm's version: %w", err)
}
