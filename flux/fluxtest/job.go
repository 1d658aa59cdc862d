package fluxtest

import (
	"encoding/json"
	"os/exec"
	"syscall"
	"time"

	"github.com/gangline/gangline/flux"
)

// job is one job, guarded by the broker's lock.
type job struct {
	broker   *Broker
	id       flux.JobID
	spec     flux.Jobspec
	text     string // the jobspec as it was submitted
	signed   string
	shape    shape
	name     string
	urgency  int
	state    flux.State
	reached  map[flux.State]time.Time
	logs     map[string]*eventlog
	places   []place
	r        json.RawMessage
	limit    *time.Timer
	killing  *time.Timer
	expires  time.Time
	commands []*exec.Cmd // of the tasks that run, by rank; nil for the others
	running  int
	started  bool
	finished bool
	// anyExited tells that a task has ended: the shell's doom looks at the first only.
	anyExited bool
	status    int // the highest
	// exception is the gravest.
	exception *flux.Exception
}

// eventlog is a list of lines that grows. Whoever waits for more waits for changed.
type eventlog struct {
	lines   []string
	done    bool
	changed chan struct{}
}

func newEventlog() *eventlog { return &eventlog{changed: make(chan struct{})} }

func (l *eventlog) add(line string) {
	l.lines = append(l.lines, line)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *eventlog) end() {
	if !l.done {
		l.done = true
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// line is an eventlog's entry.
func line(now time.Time, name string, context any) string {
	entry := struct {
		Timestamp float64 `json:"timestamp"`
		Name      string  `json:"name"`
		Context   any     `json:"context,omitempty"`
	}{seconds(now), name, context}
	text, err := json.Marshal(entry)
	if err != nil {
		text = []byte(`{"timestamp":0,"name":"` + name + `"}`)
	}
	return string(text) + "\n"
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMicro()) / 1e6
}

func (j *job) post(name string, context any) {
	event := line(time.Now(), name, context)
	j.logs[flux.LogMain].add(event)
	j.broker.journal.add(journalEntry(j.id, event))
}

func (j *job) enter(s flux.State) {
	j.state = s
	j.reached[s] = time.Now()
}

// fail raises an exception. One of severity 0 ends the job.
func (j *job) fail(kind string, severity int, note string) {
	j.post("exception", map[string]any{"type": kind, "severity": severity, "note": note, "userid": j.broker.uid})
	if j.exception == nil || severity < j.exception.Severity {
		j.exception = &flux.Exception{Type: kind, Severity: severity, Note: note}
	}
	if severity != 0 {
		return
	}
	switch j.state {
	case flux.StateRun:
		j.enter(flux.StateCleanup)
		j.stop(kind)
	case flux.StateDepend, flux.StatePriority, flux.StateSched:
		j.enter(flux.StateCleanup)
		j.clean()
	}
}

// stop has the tasks end.
func (j *job) stop(kind string) {
	first := syscall.SIGTERM
	if kind == "timeout" {
		first = syscall.SIGALRM
	}
	if j.running == 0 {
		j.finish()
		return
	}
	j.signal(first)
	b := j.broker
	j.killing = time.AfterFunc(b.cfg.KillTimeout, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		j.signal(syscall.SIGKILL)
	})
}

func (j *job) signal(s syscall.Signal) {
	for _, c := range j.commands {
		if c != nil && c.Process != nil {
			// The whole group: a task that is a shell has children. One that has just
			// ended needs no signal.
			_ = syscall.Kill(-c.Process.Pid, s)
		}
	}
}

// finish is called when no task runs any more.
func (j *job) finish() {
	if j.finished {
		return
	}
	j.finished = true
	for _, timer := range []*time.Timer{j.limit, j.killing} {
		if timer != nil {
			timer.Stop()
		}
	}
	if j.state == flux.StateRun {
		j.enter(flux.StateCleanup)
	}
	j.post("finish", map[string]int{"status": j.status})
	j.post("release", map[string]any{"ranks": "all", "final": true})
	j.post("free", nil)
	for _, p := range j.places {
		p.giveBack()
	}
	j.clean()
	j.broker.schedule()
}

func (j *job) clean() {
	j.enter(flux.StateInactive)
	j.post("clean", nil)
	for _, l := range j.logs {
		l.end()
	}
	j.broker.depend()
}

func (j *job) result() flux.Outcome {
	switch {
	case j.started && j.status == 0 && j.exception == nil:
		return flux.Completed
	case j.exception != nil && j.exception.Severity == 0 && j.exception.Type == "cancel":
		return flux.Canceled
	case j.exception != nil && j.exception.Severity == 0 && j.exception.Type == "timeout":
		return flux.Timeout
	case j.started && j.status == 0 && j.exception.Severity > 0:
		return flux.Completed
	}
	return flux.Failed
}

func (b *Broker) find(id flux.JobID) *job {
	for _, j := range b.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}
