package fluxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"

	"github.com/gangline/gangline/flux"
)

const flagWaitCreate = 1

// watch is job-info.eventlog-watch: all lines so far, then each new one, until the log
// is complete, which ENODATA says.
func (p *peer) watch(m message, text []byte) {
	in, err := read[struct {
		ID    flux.JobID
		Path  string
		Flags int
	}](text)
	if err != nil {
		p.answer(m, nil, err)
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.streams[m.matchtag] = cancel
	p.mu.Unlock()
	p.broker.serving.Go(func() {
		err := p.follow(ctx, m, in.ID, in.Path, in.Flags&flagWaitCreate != 0)
		cancel()
		p.mu.Lock()
		delete(p.streams, m.matchtag)
		p.mu.Unlock()
		p.answer(m, nil, err)
	})
}

// watchJournal is job-manager.events-journal: what has happened to each job that is not over,
// an entry of no job, then each new event. An entry has one job and some of its events. The
// names of those that are wanted may be given.
func (p *peer) watchJournal(m message, text []byte) {
	in, err := read[struct{ Allow map[string]int }](text)
	if err == nil && p.broker.cfg.Guest {
		err = refuse(syscall.EPERM, "Request requires owner credentials")
	}
	if err != nil {
		p.answer(m, nil, err)
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.streams[m.matchtag] = cancel
	p.mu.Unlock()
	p.broker.serving.Go(func() {
		defer cancel()
		p.followJournal(ctx, m, func(name string) bool { _, ok := in.Allow[name]; return ok || in.Allow == nil })
		p.answer(m, nil, refuse(syscall.ENODATA, "No data available"))
	})
}

func (p *peer) followJournal(ctx context.Context, m message, wanted func(name string) bool) {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		if j.state != flux.StateInactive {
			p.answer(m, json.RawMessage(journalEntry(j.id, j.logs[flux.LogMain].lines...)), nil)
		}
	}
	const noJob = -1
	p.answer(m, map[string]any{"id": noJob, "events": []any{}}, nil)
	for sent := len(b.journal.lines); ; sent++ {
		for sent == len(b.journal.lines) {
			changed := b.journal.changed
			b.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
				b.mu.Lock()
				return
			}
			b.mu.Lock()
		}
		var entry struct{ Events []struct{ Name string } }
		text := []byte(b.journal.lines[sent])
		if json.Unmarshal(text, &entry) == nil && len(entry.Events) == 1 && wanted(entry.Events[0].Name) {
			p.answer(m, json.RawMessage(text), nil)
		}
	}
}

// journalEntry is one of the journal's, of lines of a job's eventlog.
func journalEntry(id flux.JobID, events ...string) string {
	return fmt.Sprintf(`{"id":%d,"events":[%s]}`, uint64(id), strings.Join(events, ","))
}

func (p *peer) cancelWatch(text []byte) {
	in, err := read[struct{ Matchtag uint32 }](text)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel := p.streams[in.Matchtag]; cancel != nil {
		cancel()
	}
}

func (p *peer) follow(ctx context.Context, m message, id flux.JobID, path string, wait bool) error {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.find(id)
	if j == nil {
		return refuse(syscall.ENOENT, "No such file or directory")
	}
	main, sent := j.logs[flux.LogMain], 0
	for {
		log := j.logs[path]
		if log == nil && (!wait || main.done) {
			return refuse(syscall.ENOENT, "No such file or directory")
		}
		if log == nil {
			log = main // from whose changes its creation is seen
		} else if sent < len(log.lines) {
			lines := strings.Join(log.lines[sent:], "")
			sent = len(log.lines)
			b.mu.Unlock()
			p.answer(m, map[string]string{"event": lines}, nil)
			b.mu.Lock()
			continue
		} else if log.done {
			return refuse(syscall.ENODATA, "No data available")
		}
		changed := log.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			b.mu.Lock()
			return refuse(syscall.ENODATA, "No data available")
		}
		b.mu.Lock()
	}
}
