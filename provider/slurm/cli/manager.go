package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// DefaultTimeout is longer than the time after which Slurm's tools give up by
// themselves: about MessageTimeout, 10 s unless the site has chosen otherwise.
const DefaultTimeout = time.Minute

// Sites are the site as each HPC user sees it (see package sites).
type Sites interface {
	For(ctx context.Context, user string) (site.Site, error)
}

// Config says how Slurm is reached.
type Config struct {
	// Asker is the site at which all is asked; site.Local if nil.
	Asker site.Site
	// Sites are those of the users whose jobs are submitted and cancelled. Without them,
	// and for a job of no user, it is the asker's.
	Sites Sites
	// Users are the numbers of those whose jobs are listed; nil, or nobody, for the
	// asker's own.
	Users func() []int
	// Bin is the directory of Slurm's tools; empty for the search path.
	Bin string
	// Conf is the path of slurm.conf; empty for the tools' own default.
	Conf string
	// Timeout bounds each run of a tool; DefaultTimeout if zero.
	Timeout time.Duration
	// CountUsed asks for what is used of each node as well.
	CountUsed bool
	// Log gets what sbatch says beside a job's id; slog.Default() if nil.
	Log *slog.Logger
}

// Manager is one Slurm cluster as the provider's users see it.
type Manager struct {
	cfg Config

	owners slurm.Owners

	mu    sync.Mutex
	known map[string]*session // by user; "" is the asker
	// unknown is what each tool last said of users that it does not know.
	unknown map[string]string
}

var _ wlm.Manager = (*Manager)(nil)

// New checks that the asker has the tools, unless it cannot be reached now. It does not
// speak to Slurm.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, known: map[string]*session{}, unknown: map[string]string{}}
	if m.cfg.Asker == nil {
		m.cfg.Asker = site.Local{}
	}
	m.cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	m.cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if _, err := m.session(ctx, ""); err != nil && !errors.Is(err, site.ErrUnreachable) {
		return nil, err
	}
	return m, nil
}

// Submit implements wlm.Manager. The job gets the tools' environment and the
// nodes' resource limits, nothing of the provider's own. When ctx ends, or the way to
// the site is cut, while sbatch runs, sbatch runs on: its answer is lost, but not its
// request.
//
// Slurm keeps a record of some jobs it refuses: List then shows an ended job of
// the request's name, although Submit has returned a *wlm.RejectedError.
func (m *Manager) Submit(ctx context.Context, r translate.Request) (string, error) {
	script := filepath.Join(r.Dir, scriptName)
	args, err := translate.SbatchArgs(r, script)
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("submitting: %w", context.Cause(ctx))
	}
	at, err := m.session(ctx, r.User)
	if err != nil {
		return "", err
	}
	if at.user.UID == 0 {
		return "", fmt.Errorf("submitting as %s: no job runs as root: map the gang to an ordinary HPC user", at.user.Name)
	}
	if err := at.site.Write(ctx, script, []byte(scriptText), scriptMode); err != nil {
		return "", fmt.Errorf("writing the batch script: %w", err)
	}
	a := m.run(ctx, at, call{tool: "sbatch", env: at.env, args: args, locked: true})
	if a.err != nil {
		if message, refused := refusal(a); refused {
			return "", &wlm.RejectedError{Message: message}
		}
		return "", a.err
	}
	id, err := parseJobID(a.stdout)
	if err != nil {
		return "", err
	}
	if a.stderr != "" {
		m.cfg.Log.Info("sbatch has a remark", "allocation", r.Name, "job", id, "remark", a.words())
	}
	return id, nil
}

// List implements wlm.Manager.
func (m *Manager) List(ctx context.Context) ([]wlm.Job, error) {
	at, err := m.session(ctx, "")
	if err != nil {
		return nil, err
	}
	uids := m.users(at)
	separator := "@" + rand.Text() + "@"
	a := m.aboutJobsOf(ctx, at, uids, call{
		tool: "squeue", env: at.utcEnv(), args: []string{"--noheader", "--all", "--states=all", "--format=" + strings.ReplaceAll(squeueFormat, recordSeparator, separator)},
	})
	if a.err != nil {
		return nil, a.err
	}
	// A job's name may hold anything, but not what nobody could guess.
	plain := strings.ReplaceAll(a.stdout, recordSeparator, "\uFFFD")
	return parseJobs(strings.ReplaceAll(plain, separator, recordSeparator), m.among(uids))
}

// Cancel implements wlm.Manager. Cancelling a heterogeneous job's leader, whose
// id is the job's, cancels all of its components.
func (m *Manager) Cancel(ctx context.Context, user, jobID string) error {
	if !isNumber(jobID) {
		return fmt.Errorf("cancelling a job: %q is no job id of Slurm's", jobID)
	}
	at, err := m.session(ctx, user)
	if err != nil {
		return fmt.Errorf("cancelling job %s: %w", jobID, err)
	}
	a := m.run(ctx, at, call{tool: "scancel", env: at.env, args: []string{jobID}})
	if a.err != nil && !slurm.AlreadyGone(a.stderr) {
		return fmt.Errorf("cancelling job %s: %w", jobID, a.err)
	}
	return nil
}

// Inventory implements wlm.Manager. A partition that takes no jobs has no
// usable node.
func (m *Manager) Inventory(ctx context.Context) (wlm.Inventory, error) {
	at, err := m.session(ctx, "")
	if err != nil {
		return wlm.Inventory{}, err
	}
	a := m.run(ctx, at, call{
		tool: "sinfo", env: at.env,
		args: []string{"--noheader", "--all", "--Node", "--format=" + sinfoFormat},
	})
	if a.err != nil {
		return wlm.Inventory{}, a.err
	}
	inv, err := parseInventory(a.stdout)
	if err != nil {
		return wlm.Inventory{}, err
	}
	m.addSwitches(ctx, at, inv)
	if !m.cfg.CountUsed {
		return inv, nil
	}
	a = m.run(ctx, at, call{tool: "sinfo", env: at.env, args: []string{"--noheader", "--all", "--Node", "--Format=" + usedFormat}})
	if a.err != nil {
		return wlm.Inventory{}, a.err
	}
	used, err := parseUsed(a.stdout)
	if err != nil {
		return wlm.Inventory{}, err
	}
	addUsed(inv, used)
	return inv, nil
}

// Name implements wlm.Manager. It does not speak to Slurm's controller.
func (m *Manager) Name(ctx context.Context) (string, error) {
	at, err := m.session(ctx, "")
	if err != nil {
		return "", err
	}
	a := m.run(ctx, at, call{tool: "sinfo", env: at.env, args: []string{"--version"}})
	if a.err != nil {
		return "", a.err
	}
	words := strings.Fields(a.stdout) // "slurm 24.05.1"; Debian's is called slurm-wlm
	if len(words) == 0 {
		return "", errors.New("reading Slurm's version: sinfo --version printed nothing")
	}
	return "slurm " + words[len(words)-1], nil
}
