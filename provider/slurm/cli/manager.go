package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// DefaultTimeout is longer than the time after which Slurm's tools give up by
// themselves: about MessageTimeout, 10 s unless the site has chosen otherwise.
const DefaultTimeout = time.Minute

// Config says how Slurm is reached.
type Config struct {
	// Bin is the directory of Slurm's tools; empty for the search path.
	Bin string
	// Conf is the path of slurm.conf; empty for the tools' own default.
	Conf string
	// Timeout bounds each run of a tool; DefaultTimeout if zero.
	Timeout time.Duration
	// CountUsed asks for what is used of each node as well.
	CountUsed bool
	// LockFile, from spool.Lock, is handed to every sbatch, so that a later provider
	// can wait for those that this one may leave behind.
	LockFile *os.File
	// Log gets what sbatch says beside a job's id; slog.Default() if nil.
	Log *slog.Logger
}

// Manager is one Slurm cluster as the provider's own user sees it.
type Manager struct {
	cfg   Config
	tools map[string]string // paths by name; never written after New
	env   []string          // of every tool, and so of every job
	uid   string
}

var _ wlm.Manager = (*Manager)(nil)

// New checks that the tools are there. It does not speak to Slurm.
func New(cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, tools: map[string]string{}, uid: strconv.Itoa(os.Getuid())}
	m.cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	m.cfg.Log = cmp.Or(cfg.Log, slog.Default())
	for _, tool := range []string{"sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol"} {
		name := tool
		if cfg.Bin != "" {
			name = filepath.Join(cfg.Bin, tool)
		}
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil && (tool == "sacct" || tool == "scontrol") {
			continue // they are of use only where there is a database, or a topology
		}
		if err != nil {
			return nil, fmt.Errorf("looking for Slurm's tools: %w; install Slurm's client or name its directory", err)
		}
		m.tools[tool] = path
	}
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("looking up the provider's own user: %w; it needs an entry in the user database", err)
	}
	m.env = []string{
		"PATH=" + filepath.Dir(m.tools["sbatch"]) + ":" + slurm.SystemPath,
		"HOME=" + me.HomeDir, "USER=" + me.Username, "LOGNAME=" + me.Username, "LANG=C",
	}
	if cfg.Conf != "" {
		m.env = append(m.env, "SLURM_CONF="+cfg.Conf)
	}
	return m, nil
}

// Submit implements wlm.Manager. The job gets the tools' environment and the
// nodes' resource limits, nothing of the provider's own. When ctx ends while
// sbatch runs, sbatch runs on: its answer is lost, but not its request.
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
	if err := writeScript(script); err != nil {
		return "", fmt.Errorf("writing the batch script: %w", err)
	}
	call := call{tool: "sbatch", env: m.env, args: args}
	if m.cfg.LockFile != nil {
		call.files = []*os.File{m.cfg.LockFile}
	}
	done := make(chan answer, 1)
	go func() { done <- m.run(context.WithoutCancel(ctx), call) }()
	var a answer
	select {
	case a = <-done:
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for sbatch: %w", context.Cause(ctx))
	}
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
		m.cfg.Log.Info("sbatch has a remark", "gang", r.Name, "job", id, "remark", a.words())
	}
	return id, nil
}

// List implements wlm.Manager.
func (m *Manager) List(ctx context.Context) ([]wlm.Job, error) {
	a := m.run(ctx, call{
		tool: "squeue",
		env:  m.utcEnv(),
		args: []string{"--noheader", "--all", "--states=all", "--user=" + m.uid, "--format=" + squeueFormat},
	})
	if a.err != nil {
		return nil, a.err
	}
	return parseJobs(a.stdout)
}

// utcEnv is the environment of a tool that prints times.
func (m *Manager) utcEnv() []string {
	return append(m.env[:len(m.env):len(m.env)], "TZ=UTC", "SLURM_TIME_FORMAT=%Y-%m-%dT%H:%M:%S")
}

// Cancel implements wlm.Manager. Cancelling a heterogeneous job's leader, whose
// id is the job's, cancels all of its components.
func (m *Manager) Cancel(ctx context.Context, _, jobID string) error {
	if !isNumber(jobID) {
		return fmt.Errorf("cancelling a job: %q is no job id of Slurm's", jobID)
	}
	a := m.run(ctx, call{tool: "scancel", env: m.env, args: []string{jobID}})
	if a.err != nil && !slurm.AlreadyGone(a.stderr) {
		return fmt.Errorf("cancelling job %s: %w", jobID, a.err)
	}
	return nil
}

// Inventory implements wlm.Manager. A partition that takes no jobs has no
// usable node.
func (m *Manager) Inventory(ctx context.Context) (wlm.Inventory, error) {
	a := m.run(ctx, call{
		tool: "sinfo", env: m.env,
		args: []string{"--noheader", "--all", "--Node", "--format=" + sinfoFormat},
	})
	if a.err != nil {
		return wlm.Inventory{}, a.err
	}
	inv, err := parseInventory(a.stdout)
	if err != nil {
		return wlm.Inventory{}, err
	}
	m.addSwitches(ctx, inv)
	if !m.cfg.CountUsed {
		return inv, nil
	}
	a = m.run(ctx, call{tool: "sinfo", env: m.env, args: []string{"--noheader", "--all", "--Node", "--Format=" + usedFormat}})
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
	a := m.run(ctx, call{tool: "sinfo", env: m.env, args: []string{"--version"}})
	if a.err != nil {
		return "", a.err
	}
	words := strings.Fields(a.stdout) // "slurm 24.05.1"; Debian's is called slurm-wlm
	if len(words) == 0 {
		return "", errors.New("reading Slurm's version: sinfo --version printed nothing")
	}
	return "slurm " + words[len(words)-1], nil
}
