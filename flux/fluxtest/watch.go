package fluxtest

import (
	"context"
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
