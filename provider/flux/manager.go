package flux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gangline/gangline/flux"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// remembered is for how long List tells of jobs that have ended. Flux keeps them as long
// as its configuration says, often for good; Ended finds the older ones.
const remembered = time.Hour

// systemPath is the search path of the agents.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// DefaultTimeout bounds each call of Flux's.
const DefaultTimeout = time.Minute

// Config says how Flux is reached.
type Config struct {
	// URI of the broker; empty for FLUX_URI of the environment, else the system instance.
	URI string
	// Library is the path of libflux-core; empty for flux.DefaultLibrary.
	Library string
	// NodeMemoryMiB is what each node has, in MiB: Flux neither knows nor counts it.
	NodeMemoryMiB int64
	// Timeout bounds each call; DefaultTimeout if zero.
	Timeout time.Duration
}

// Manager is one Flux instance as the process's own user sees it.
type Manager struct {
	nodeMemoryMiB int64
	flux          *connection
	user          string
	env           map[string]string // of every agent; never written after New
	watches       watches
}

var (
	_ wlm.Manager   = (*Manager)(nil)
	_ wlm.Historian = (*Manager)(nil)
	_ wlm.Notifier  = (*Manager)(nil)
)

// New connects, and fails where the library of Flux is not (flux.ErrUnavailable). An
// instance that does not answer may do so later. Call Close in the end.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.NodeMemoryMiB <= 0 {
		return nil, errors.New("configuring Flux: the memory of a node is not given; Flux does not know it, so name it in MiB")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("looking up the provider's own user: %w; it needs an entry in the user database", err)
	}
	m := &Manager{nodeMemoryMiB: cfg.NodeMemoryMiB, flux: newConnection(cfg), user: me.Username, env: map[string]string{
		"PATH": systemPath, "HOME": me.HomeDir, "USER": me.Username, "LOGNAME": me.Username, "LANG": "C.UTF-8",
	}}
	if _, err := m.flux.open(ctx); errors.Is(err, flux.ErrUnavailable) {
		m.flux.close()
		return nil, err
	}
	return m, nil
}

// Close disconnects. Jobs run on.
func (m *Manager) Close() error {
	m.flux.close()
	return nil
}

// Submit implements wlm.Manager. A job that no nodes of the instance could ever hold is
// taken by Flux, and ends with an exception.
func (m *Manager) Submit(ctx context.Context, r translate.Request) (string, error) {
	if r.User != "" && r.User != m.user {
		return "", &wlm.RejectedError{Message: fmt.Sprintf("the job is to be of %s, and this process submits as %s", r.User, m.user)}
	}
	if _, err := os.Stat(r.Dir); err != nil {
		return "", fmt.Errorf("submitting %s: its directory: %w", r.Name, err)
	}
	var cfg instanceConfig
	if err := m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) (err error) {
		cfg, err = readConfig(ctx, h)
		return err
	}); err != nil {
		return "", fmt.Errorf("submitting %s: asking for the instance's configuration: %w", r.Name, err)
	}
	spec, err := newJobspec(r, setting{env: m.agentEnv(cfg), hasQueues: len(cfg.Queues) > 0})
	if err != nil {
		return "", &wlm.RejectedError{Message: err.Error()}
	}
	var id flux.JobID
	err = m.flux.do(ctx, func(ctx context.Context, h *flux.Handle) (err error) {
		id, err = h.Submit(ctx, spec, flux.SubmitOptions{Urgency: urgency(r.Nice)})
		return err
	})
	if err != nil {
		return "", verdict(fmt.Errorf("submitting %s: %w", r.Name, err))
	}
	return id.Plain(), nil
}

// Check implements wlm.Checker.
func (*Manager) Check(r translate.Request) error {
	r.Groups = slices.Clone(r.Groups)
	for i, g := range r.Groups {
		r.Groups[i].CPUs = max(g.CPUs, 1) // pods that are still to come ask for nothing yet
	}
	_, err := newJobspec(r, setting{hasQueues: true})
	return err
}

func (m *Manager) agentEnv(cfg instanceConfig) map[string]string {
	env := maps.Clone(m.env)
	env[killWaitVariable] = killWait(cfg.killTimeout()).String()
	return env
}

// verdict makes a refusal of an error that is Flux's word on the job, and no passing
// trouble of its own.
func verdict(err error) error {
	var answered *flux.Error
	if !errors.As(err, &answered) {
		return err
	}
	switch answered.Errno {
	case syscall.EINVAL, syscall.EPERM, syscall.EPROTO, syscall.EOVERFLOW, syscall.E2BIG:
	default:
		return err
	}
	if strings.Contains(answered.Text, "disabled") { // by an administrator, for a while
		return err
	}
	return &wlm.RejectedError{Message: answered.Text}
}

// listed are the attributes that jobOf reads.
func listed() []string {
	return []string{
		"name", "queue", "urgency", "state", "result", "t_submit", "t_run", "t_inactive", "expiration", "nodelist", "annotations",
		"exception_occurred", "exception_type", "exception_severity", "exception_note",
	}
}

// List implements wlm.Manager. Jobs that ended more than an hour ago are Ended's.
func (m *Manager) List(ctx context.Context) ([]wlm.Job, error) {
	return m.jobs(ctx, flux.Query{
		Constraint: flux.Users(os.Getuid()), Since: time.Now().Add(-remembered), Attributes: listed(),
	})
}

func (m *Manager) jobs(ctx context.Context, q flux.Query) ([]wlm.Job, error) {
	var jobs []flux.Job
	err := m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) (err error) {
		jobs, err = h.Jobs(ctx, q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing Flux's jobs: %w", err)
	}
	stopped := m.stopped(ctx, jobs)
	all := make([]wlm.Job, len(jobs))
	for i, j := range jobs {
		all[i] = jobOf(j, m.user)
		if reason, is := stopped[j.Queue]; is && j.State == flux.StateSched && all[i].Phase == wlm.PhaseQueued {
			all[i].Reason, all[i].Explanation = "QueueStopped", reason
		}
	}
	m.watches.add(jobs, m.watch)
	return all, nil
}

// queueStatus is the answer of job-manager.queue-status (flux-queue(1)).
type queueStatus struct {
	Start      bool   `json:"start"`
	StopReason string `json:"stop_reason"`
}

// stopped are the queues in which jobs wait and that the site has stopped, with why. What
// Flux does not tell is left out: it is but an explanation.
func (m *Manager) stopped(ctx context.Context, jobs []flux.Job) map[string]string {
	why := map[string]string{}
	asked := map[string]bool{}
	for _, j := range jobs {
		if j.State != flux.StateSched || asked[j.Queue] {
			continue
		}
		asked[j.Queue] = true
		request := map[string]string{}
		if j.Queue != "" {
			request["name"] = j.Queue
		}
		var status queueStatus
		err := m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) error {
			return h.RPC(ctx, "job-manager.queue-status", request, &status)
		})
		if err == nil && !status.Start {
			why[j.Queue] = strings.TrimSuffix("the site has stopped the queue: "+status.StopReason, ": ")
		}
	}
	return why
}

// Ended implements wlm.Historian.
func (m *Manager) Ended(ctx context.Context, refs []wlm.JobRef) (map[string]wlm.Job, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	var names []string
	for _, r := range refs {
		names = append(names, r.Name)
	}
	jobs, err := m.jobs(ctx, flux.Query{
		Constraint: flux.And(flux.Users(os.Getuid()), flux.InStates(flux.StateInactive), flux.Names(names...)), Attributes: listed(),
	})
	if err != nil {
		return nil, err
	}
	found := map[string]wlm.Job{}
	for _, j := range jobs {
		for _, r := range refs {
			if r.Name == j.Name && (r.ID == "" || r.ID == j.ID) && j.Phase == wlm.PhaseEnded {
				found[j.Name] = j
			}
		}
	}
	return found, nil
}

// Cancel implements wlm.Manager.
func (m *Manager) Cancel(ctx context.Context, _, jobID string) error {
	id, err := flux.ParseJobID(jobID)
	if err != nil {
		return fmt.Errorf("cancelling a job: %w", err)
	}
	err = m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) error { return h.Cancel(ctx, id, "cancelled by Gangline") })
	var answered *flux.Error
	if errors.As(err, &answered) && answered.Errno == syscall.ENOENT {
		return nil // it is gone, or never was
	}
	if err != nil {
		return fmt.Errorf("cancelling job %s: %w", jobID, err)
	}
	return nil
}

// Inventory implements wlm.Manager. The partitions are Flux's queues; an instance that
// has none is one partition.
func (m *Manager) Inventory(ctx context.Context) (wlm.Inventory, error) {
	var inventory wlm.Inventory
	err := m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) error {
		cfg, err := readConfig(ctx, h)
		if err != nil {
			return err
		}
		status, err := h.ResourceStatus(ctx)
		if err != nil {
			return err
		}
		sched, err := h.SchedStatus(ctx)
		if err != nil {
			return err
		}
		inventory = newInventory(cfg, nodesOf(status, sched), m.nodeMemoryMiB)
		return nil
	})
	if err != nil {
		return wlm.Inventory{}, fmt.Errorf("asking Flux for its resources: %w", err)
	}
	return inventory, nil
}

// Name implements wlm.Manager. While the instance does not answer, its version is not known.
func (m *Manager) Name(ctx context.Context) (string, error) {
	var version string
	err := m.flux.ask(ctx, func(ctx context.Context, h *flux.Handle) (err error) {
		version, err = h.Attribute(ctx, "version")
		return err
	})
	if err != nil {
		return "flux", nil //nolint:nilerr // whether it answers is not what is asked
	}
	return "flux " + version, nil
}
