package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
)

const (
	// jobLimit ends a job that is forgotten: nothing of it lasts longer.
	jobLimit = 5 * time.Minute
	// peerWait is how long doctors wait for each other; shared filesystems show files
	// late (NFS after up to a minute, acregmax, but a new file within seconds).
	peerWait = 10 * time.Second
	// doctorLife is how long doctors stay to be asked.
	doctorLife = 90 * time.Second
	// lookEvery is the pause between two looks at job and spool.
	lookEvery = 500 * time.Millisecond
	// leaveWithin is how long a job has to end by itself, cleanWithin what taking
	// everything away may take.
	leaveWithin = 15 * time.Second
	cleanWithin = time.Minute
	// callTimeout bounds one call of a doctor.
	callTimeout = 15 * time.Second
	// memoryMiB is what each task asks for.
	memoryMiB = 256
)

// probe is one job of doctors, as one user.
type probe struct {
	options   Options
	who       Who
	inventory wlm.Inventory
	say       func(format string, args ...any)

	site   site.Site
	dir    spool.Dir
	agent  string
	tasks  int
	gpus   int
	client ssh.Signer
	id     string // the job's
	seen   seen
}

// seen is what was gathered of a job.
type seen struct {
	job     wlm.Job
	found   bool // in a listing
	hellos  map[int]doctor.Hello
	calls   map[int]called
	reports map[int]doctor.Report
	stamps  []site.Watched
	log     string
	state   string // last told
	// fileTime is when the file server says that a file was written at written.
	fileTime, written time.Time
}

// called is how a doctor answered this machine.
type called struct {
	clock doctor.Clock
	err   error
}

// checkSite looks at the site as the user sees it, without a job.
func (p *probe) checkSite(ctx context.Context) []Line {
	where := "user " + p.who.User
	s, err := p.options.Sites.For(ctx, p.who.User)
	var me site.User
	began := time.Now()
	if err == nil {
		me, err = s.User(ctx)
	}
	if err != nil && p.options.Self.Ordinary {
		return []Line{bad(where, checkSite, doctor.Fail, "run preflight, and gangline-node, as the user whose the jobs are to be", "%v", err)}
	}
	if err != nil {
		return []Line{bad(where, checkSite, doctor.Fail, "look at access in the node's configuration: the mode, the login node's address, its host key and the user's key; \"ssh\" or \"sudo -u\" with the same must work by hand",
			"the site cannot be reached: %v", err)}
	}
	p.options.Met(me.UID)
	lines := []Line{good(where, checkSite, doctor.OK, "%s is uid %d on %s (answered in %s)", me.Name, me.UID, me.Host, time.Since(began).Round(time.Millisecond))}
	root := spool.Root(strings.ReplaceAll(p.options.Spool, "{user}", p.who.User))
	if _, err := s.List(ctx, root.Gangs()); err != nil {
		lines = append(lines, bad(where, doctor.CheckSpool, doctor.Fail, "make the spool's directory for the user, or let him make it", "%v", err))
	}
	return lines
}

// run submits the job, hears its doctors and takes everything away again.
func (p *probe) run(ctx context.Context) []Line {
	where := p.who.String()
	if line := p.prepare(ctx); line != nil {
		return []Line{*line}
	}
	lines := p.submitAndHear(ctx)
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWithin)
	defer cancel()
	if err := p.clean(cleaning); err != nil {
		lines = append(lines, bad(where, checkJob, doctor.Warn, "cancel the job and remove the directory "+string(p.dir), "something is left behind: %v", err))
	}
	return lines
}

// prepare makes the directory that the job runs in, as for a gang. It returns a line if
// that fails; then nothing is left.
func (p *probe) prepare(ctx context.Context) *Line {
	where := p.who.String()
	fail := func(check, cure string, err error) *Line {
		l := bad(where, check, doctor.Fail, cure, "%v", err)
		return &l
	}
	var err error
	if p.site, err = p.options.Sites.For(ctx, p.who.User); err != nil {
		return fail(checkSite, "see the line about the site", err)
	}
	if p.client, err = doctor.NewKey(); err != nil {
		return fail(checkJob, "look at this machine's source of random numbers", err)
	}
	if p.agent, err = p.options.Sites.Agent(ctx, p.who.User, p.options.Agent); err != nil {
		return fail(doctor.CheckAgent, "look at access.ssh: agentDir must be writable there, and agents name the program for its architecture", err)
	}
	p.tasks, p.gpus = size(*partition(p.inventory, p.who.Partition), p.options)
	if p.tasks == 0 {
		return fail(checkJob, "see the line about the partition", errors.New("no node is usable"))
	}
	root := spool.Root(strings.ReplaceAll(p.options.Spool, "{user}", p.who.User))
	gang := newGang(p.tasks, p.gpus)
	p.dir = root.Dir(gang.Allocation)
	const cure = "let the user write to the spool, and see that its filesystem has room"
	if err := p.site.CreateAllocation(ctx, root, gang); err != nil {
		return fail(doctor.CheckSpool, cure, err)
	}
	order := doctor.Order{
		Tasks: p.tasks, GPUs: p.gpus, Version: p.options.Version, ClientKey: ssh.MarshalAuthorizedKey(p.client.PublicKey()),
		PeerSeconds: int(peerWait.Seconds()), LifeSeconds: int(doctorLife.Seconds()),
		Scratch: p.options.Scratch, Directories: p.options.Directories, Runtimes: p.options.Runtimes,
	}
	p.seen.written = time.Now()
	if err := site.WriteJSON(ctx, p.site, doctor.OrderFile(p.dir), order); err != nil {
		return fail(doctor.CheckSpool, cure, errors.Join(err, p.site.RemoveAllocation(context.WithoutCancel(ctx), p.dir)))
	}
	return nil
}

func (p *probe) submitAndHear(ctx context.Context) []Line {
	where := p.who.String()
	id, err := p.options.Manager.Submit(ctx, p.request())
	var rejected *wlm.RejectedError
	switch {
	case errors.As(err, &rejected):
		return []Line{bad(where, checkJob, doctor.Fail, "give the user an association with that account, partition and QOS (sacctmgr show assoc user=...), or set others in the node's identity; look at the partition's limits",
			"the workload manager does not take a job of %d nodes: %s", p.tasks, rejected.Message)}
	case err != nil:
		return []Line{bad(where, checkJob, doctor.Fail, "see that the user can submit there by hand", "submitting a job of %d nodes: %v", p.tasks, err)}
	}
	p.id = id
	p.say("submitted job %s: %d nodes, %d GPUs on each; waiting for its start for up to %s", id, p.tasks, p.gpus, p.options.Timeout)
	trouble := p.hear(ctx)
	p.lookAtSpool(context.WithoutCancel(ctx)) // its last words
	lines := judgeJob(p.facts(), trouble)
	if p.seen.fileTime.IsZero() {
		return lines
	}
	return append(lines, judgeClock("the spool's file server", doctor.Clock{Ahead: p.seen.fileTime.Sub(p.seen.written), Error: time.Second}))
}

// facts is what is judged.
func (p *probe) facts() facts {
	return facts{
		who: p.who.String(), id: p.id, job: p.seen.job, tasks: p.tasks, agent: p.agent, dir: string(p.dir),
		hellos: p.seen.hellos, calls: p.seen.calls, reports: p.seen.reports, log: p.seen.log,
	}
}

// hear waits until all doctors have reported, or will not. It returns why not.
func (p *probe) hear(ctx context.Context) (trouble string) {
	p.seen.hellos, p.seen.calls, p.seen.reports = map[int]doctor.Hello{}, map[int]called{}, map[int]doctor.Report{}
	p.seen.stamps = []site.Watched{{Path: doctor.OrderFile(p.dir)}, {Path: filepath.Join(string(p.dir), "job.log")}}
	for t := range p.tasks {
		p.seen.stamps = append(p.seen.stamps,
			site.Watched{Path: p.dir.Status(t), Most: spool.MaxReport}, site.Watched{Path: doctor.ReportFile(p.dir, t), Most: spool.MaxReport})
	}
	limit := time.NewTimer(p.options.Timeout)
	defer limit.Stop()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for started := false; ; {
		ended := p.lookAtJob(ctx)
		p.lookAtSpool(ctx)
		switch {
		case len(p.seen.reports) == p.tasks:
			return ""
		case ended:
			return "ended"
		case !started && p.running():
			started = true
			limit.Reset(doctorLife)
		}
		select {
		case <-ctx.Done():
			return "interrupted"
		case <-limit.C:
			if started {
				return "silent"
			}
			return "queued"
		case <-ticker.C:
		}
	}
}

func (p *probe) running() bool {
	return p.seen.found && (p.seen.job.Phase == wlm.PhaseRunning || p.seen.job.Phase == wlm.PhaseEnding)
}

// lookAtJob reports whether the job has ended. A query that fails says nothing.
func (p *probe) lookAtJob(ctx context.Context) bool {
	jobs, err := p.options.Manager.List(ctx)
	if err != nil {
		return false
	}
	was := p.seen.found
	p.seen.found = false
	for _, j := range jobs {
		if j.ID == p.id {
			p.seen.job, p.seen.found = j, true
		}
	}
	if !p.seen.found {
		return was // it was there and is forgotten
	}
	state := p.seen.job.State
	if p.seen.job.Reason != "" && p.seen.job.Reason != "None" {
		state += " (" + p.seen.job.Reason + ")"
	}
	if p.seen.job.Nodes != "" {
		state += " on " + p.seen.job.Nodes
	}
	if state != p.seen.state {
		p.seen.state = state
		p.say("job %s is %s", p.id, state)
	}
	return p.seen.job.Phase == wlm.PhaseEnded
}

// lookAtSpool reads what the doctors have written, and calls each that is new.
func (p *probe) lookAtSpool(ctx context.Context) {
	changes, err := p.site.Changed(ctx, p.seen.stamps)
	if err != nil {
		return // it is tried again
	}
	for _, c := range changes {
		p.seen.stamps[c.Index].Stamp = c.Stamp
		if c.Err != nil || c.Stamp == (site.Stamp{}) {
			continue
		}
		task := c.Index/2 - 1
		switch {
		case c.Index == 0:
			p.seen.fileTime = c.Stamp.Time()
		case c.Index == 1:
			p.readLog(c.Data)
		case c.Index%2 == 0:
			var h doctor.Hello
			if spool.Decode(p.seen.stamps[c.Index].Path, c.Data, &h) == nil {
				p.seen.hellos[task] = h
				p.seen.calls[task] = p.call(ctx, h)
			}
		default:
			var r doctor.Report
			if spool.Decode(p.seen.stamps[c.Index].Path, c.Data, &r) == nil {
				p.seen.reports[task] = r
				p.say("%d of %d nodes have reported", len(p.seen.reports), p.tasks)
			}
		}
	}
}

// call goes the way of kubectl exec: by the site to the node's port.
func (p *probe) call(ctx context.Context, h doctor.Hello) called {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := p.site.DialContext(ctx, "tcp", net.JoinHostPort(h.Agent.Address, strconv.Itoa(h.Agent.SSHPort)))
	if err != nil {
		return called{err: err}
	}
	clock, err := doctor.Ask(ctx, conn, h.HostKey, p.client)
	return called{clock, err}
}

// maxLog bounds what is kept of the job's output.
const maxLog = 64 << 10

// readLog reads the job's output, and the reports in it that could not be written.
func (p *probe) readLog(data []byte) {
	var rest []string
	for line := range strings.Lines(string(data[max(0, len(data)-maxLog):])) {
		text, marked := strings.CutPrefix(strings.TrimSpace(line), doctor.Mark)
		var r doctor.Report
		if marked && json.Unmarshal([]byte(text), &r) == nil && r.Task >= 0 && r.Task < p.tasks {
			p.seen.reports[r.Task] = r
		} else if text != "" {
			rest = append(rest, text)
		}
	}
	p.seen.log = strings.Join(rest, "\n")
}

// clean lets the job end, or ends it, and removes its directory.
func (p *probe) clean(ctx context.Context) error {
	var errs []error
	if p.id != "" {
		p.say("ending job %s", p.id)
		errs = append(errs, site.WriteJSON(ctx, p.site, doctor.DoneFile(p.dir), true))
		gentle, cancel := context.WithTimeout(ctx, leaveWithin)
		ended := p.running() && p.waitEnd(gentle)
		cancel()
		if !ended && p.seen.job.Phase != wlm.PhaseEnded {
			errs = append(errs, p.options.Manager.Cancel(ctx, p.who.User, p.id))
			if !p.waitEnd(ctx) {
				errs = append(errs, fmt.Errorf("job %s has not ended", p.id))
			}
		}
	}
	return cmp.Or(errors.Join(errs...), p.site.RemoveAllocation(ctx, p.dir))
}

// waitEnd waits for the job's end.
func (p *probe) waitEnd(ctx context.Context) bool {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for !p.lookAtJob(ctx) {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
