package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
)

// Config is what the launcher needs.
type Config struct {
	// Dir is the gang's directory, Self this program's file as all nodes see it.
	Dir  spool.Dir
	Self string
	// Env is the job's environment, as NAME=value.
	Env            []string
	Stdout, Stderr io.Writer
	Logger         *slog.Logger
	// StartPatience is how long a start is tried again; DefaultStartPatience if
	// zero.
	StartPatience time.Duration
}

// Variables of the environment.
const (
	envManager   = "GANGLINE_WLM"
	envJobID     = "GANGLINE_JOB_ID"
	managerLocal = "local"
	envSlurmJob  = "SLURM_JOB_ID"
	envFluxJob   = "FLUX_JOB_ID"
)

// ErrRequeued says that the workload manager has started the job again. The gang
// must not run a second time in the same allocation: a new one is the node's to
// ask for.
var ErrRequeued = errors.New("this job has run before and was started again by the workload manager; a gang's job must not be requeued")

// Run runs the gang's agents to their end and returns the exit code that the job
// is to have. When the context ends the agents are terminated; Run waits for
// them. A job that is a duplicate returns 0 at once.
func Run(ctx context.Context, cfg Config) (int, error) {
	env := lookUp(cfg.Env)
	jobID := firstSet(env, envJobID, envSlurmJob, envFluxJob)
	if jobID == "" {
		return 0, fmt.Errorf("the job's id is not known: none of %s, %s and %s is set", envJobID, envSlurmJob, envFluxJob)
	}
	gang, err := readGang(cfg.Dir)
	if err != nil {
		return 0, err
	}
	logger := cfg.Logger.With("gang", gang.Allocation, "job", jobID)
	starter, err := starterFor(env, gang, cfg)
	if err != nil {
		return 0, err
	}
	switch holder, err := claim(ctx, cfg.Dir, jobID); {
	case err != nil:
		return 0, err
	case holder == jobID:
		return 0, errors.Join(ErrRequeued, noteRequeue(ctx, cfg.Dir))
	case holder != "":
		logger.Info("another job runs this gang; this one ends and has run nothing", "holder", holder)
		return 0, nil
	}
	agentEnv := append(killWaitEnv(ctx, env), envJobID+"="+jobID)
	said := &lastLine{to: cfg.Stderr}
	cfg.Stderr = said
	code, err := startAgents(ctx, starter, slices.Concat(cfg.Env, agentEnv), cfg, logger)
	if err != nil {
		logger.Error("starting the agents", "error", err)
	}
	if latest, err := readGang(cfg.Dir); err == nil {
		gang = latest
	}
	result := outcome(code, lastPods(cfg.Dir, gang), time.Now())
	switch {
	case err != nil:
		result.Message = err.Error()
	case code != 0 && said.line() != "":
		result.Message += ": " + said.line()
	case result.ExitCode == 0 && ctx.Err() != nil:
		// A job that was interrupted has not succeeded, whatever its parts say.
		result.ExitCode, result.Message = codeTerminated, spool.AskedToEnd
	}
	logger.Info("the allocation ends", "code", result.ExitCode, "message", result.Message)
	leave(ctx, cfg.Dir.Result(), result, logger)
	return result.ExitCode, nil
}

// resultPatience is how long a result is tried again that there is no space for. The job
// keeps its nodes for it. One that was asked to end is killed sooner, by the workload
// manager, and loses nothing by it.
const resultPatience = time.Minute

// leave writes a result, the last thing that a job does.
func leave(ctx context.Context, path string, r spool.Result, logger *slog.Logger) {
	if err := writeResult(ctx, path, r); err != nil {
		logger.Error("writing the result", "error", err)
	}
}

func writeResult(ctx context.Context, path string, r spool.Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resultPatience)
	defer cancel()
	return spool.WhileFull(ctx, func() error { return spool.Write(path, r) })
}

// noteRequeue adds to the result of the job's first run that there was another. A run
// that was cut short has left none.
func noteRequeue(ctx context.Context, dir spool.Dir) error {
	var result spool.Result
	found, err := spool.Read(dir.Result(), &result)
	if err != nil {
		return err
	}
	if !found {
		result = spool.Result{ExitCode: 1, Message: ErrRequeued.Error(), Finished: time.Now()}
	}
	result.Requeued = true
	return writeResult(ctx, dir.Result(), result)
}

func readGang(dir spool.Dir) (spool.Gang, error) {
	var g spool.Gang
	switch found, err := spool.Read(dir.Gang(), &g); {
	case err != nil:
		return g, err
	case !found:
		return g, fmt.Errorf("%s is not there: is %s the gang's directory, and does this node have the spool's filesystem?", dir.Gang(), dir)
	case g.Version > spool.Version:
		return g, fmt.Errorf("%s has version %d and this program knows %d: update gangline-agent", dir.Gang(), g.Version, spool.Version)
	case len(g.Tasks) == 0:
		return g, fmt.Errorf("%s has no tasks", dir.Gang())
	}
	return g, nil
}

// claim takes the claim for a job. Where another job has it, or this one already
// had, it returns that job's id.
func claim(ctx context.Context, dir spool.Dir, jobID string) (holder string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("asking the node's name: %w", err)
	}
	err = spool.WhileFull(ctx, func() error {
		return dir.TakeClaim(spool.Claim{JobID: jobID, Host: host, Acquired: time.Now()})
	})
	faults.At(faults.Claimed)
	if !errors.Is(err, spool.ErrClaimed) {
		return "", err
	}
	var c spool.Claim
	if _, err := spool.Read(dir.Claim(), &c); err != nil {
		return "", err
	}
	return c.JobID, nil
}

// starterFor returns the command that starts an agent in each task.
func starterFor(env func(string) string, g spool.Gang, cfg Config) ([]string, error) {
	switch {
	case env(envManager) == managerLocal:
		return nil, errors.New("the local workload manager starts the agents itself (gangline-agent serve)")
	case env(envSlurmJob) != "":
		return append([]string{"srun"}, srunArgs(env, len(g.Tasks), g.Groups, cfg.Self, string(cfg.Dir))...), nil
	}
	return nil, fmt.Errorf("this is no Slurm job (%s is not set); where the workload manager starts all tasks itself, they run gangline-agent serve", envSlurmJob)
}

// A job may begin before all of its nodes know what they have (Slurm does so in
// the seconds after its controller was restarted): srun then fails, and does not
// a moment later.
const (
	DefaultStartPatience = 30 * time.Second
	startPause           = time.Second
)

// startAgents runs the agents, and again while none of them has begun: then
// nothing of a pod can have run.
func startAgents(ctx context.Context, argv, env []string, cfg Config, logger *slog.Logger) (int, error) {
	for deadline := time.Now().Add(cmp.Or(cfg.StartPatience, DefaultStartPatience)); ; {
		code, err := runAgents(ctx, argv, env, cfg, logger)
		if code == 0 || err != nil || time.Now().After(deadline) || anyBegan(cfg.Dir) {
			return code, err
		}
		logger.Warn("no agent has begun; trying again", "code", code)
		select {
		case <-ctx.Done():
			return code, nil
		case <-time.After(startPause):
		}
	}
}

// anyBegan tells whether an agent has reported. What cannot be looked at says
// nothing, and so counts as yes.
func anyBegan(dir spool.Dir) bool {
	slots, err := os.ReadDir(filepath.Dir(dir.Slot(0)))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	report := filepath.Base(dir.Status(0))
	return slices.ContainsFunc(slots, func(slot fs.DirEntry) bool {
		_, err := os.Lstat(filepath.Join(filepath.Dir(dir.Slot(0)), slot.Name(), report))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// lastLine passes text on, as far as that can be, and remembers its last line that is not
// empty.
type lastLine struct {
	to   io.Writer
	text []byte
}

// maxLine bounds what is remembered.
const maxLine = 1024

func (l *lastLine) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	if extra := len(l.text) - maxLine; extra > 0 {
		l.text = l.text[extra:]
	}
	if l.to != nil {
		// It goes to the spool, which may be full. An error would end the reading, and
		// with that who writes: srun, and all that it has started.
		_, _ = l.to.Write(p)
	}
	return len(p), nil
}

func (l *lastLine) line() string {
	lines := strings.Split(strings.TrimSpace(string(l.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// runAgents runs the command and returns its exit code, which is 1 with an error
// where it could not be started. The end of the context terminates it.
func runAgents(ctx context.Context, argv, env []string, cfg Config, logger *slog.Logger) (int, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // built by starterFor
	cmd.Env, cmd.Stdout, cmd.Stderr = env, cfg.Stdout, cfg.Stderr
	// srun passes it on to all tasks. Slurm itself kills what does not end.
	cmd.Cancel = func() error {
		logger.Info("the job was asked to end")
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	logger.Info("starting the agents", "command", strings.Join(argv, " "))
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return 1, fmt.Errorf("starting the agents by %s: %w", argv[0], err)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// lookUp returns the values of an environment, the last where one is given twice.
func lookUp(env []string) func(string) string {
	values := make(map[string]string, len(env))
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			values[name] = value
		}
	}
	return func(name string) string { return values[name] }
}

func firstSet(env func(string) string, names ...string) string {
	for _, name := range names {
		if value := env(name); value != "" {
			return value
		}
	}
	return ""
}
