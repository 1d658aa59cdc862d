package fluxtest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Node is one simulated node.
type Node struct {
	Name       string
	Cores      int
	GPUs       int
	Properties []string
}

// Config of a Broker.
type Config struct {
	// Dir gets the socket and the jobs' temporary directories. Its path must be short
	// enough for a unix socket.
	Dir   string
	Nodes []Node
	// Queues are the names of the queues; none for an instance without.
	Queues []string
	// TaskEnv, if set, adds to the environment of the tasks on a node.
	TaskEnv func(node string) []string
	// Guest has the clients be none of the instance's owner: they may not see the journal.
	Guest bool
	// Owner is the user whose the instance is and as whom tasks run, if this process is
	// root; else, or if nil, it is this process's.
	Owner *User
	// KillTimeout is the time from SIGTERM to SIGKILL; Flux's own 5 s if zero.
	KillTimeout time.Duration
}

// User is one of the system.
type User struct{ UID, GID int }

// Broker is the double of a Flux instance of one broker.
type Broker struct {
	cfg      Config
	listener net.Listener
	uid      int

	mu       sync.Mutex // of everything below, jobs included
	conns    map[net.Conn]bool
	closed   bool
	nodes    []*node
	jobs     []*job // in the order of submission
	lastID   uint64
	requests map[string]int
	journal  *eventlog // of all jobs

	serving sync.WaitGroup // connections and what they wait for
	tasks   sync.WaitGroup
}

// Start starts a broker. Call Close in the end.
func Start(cfg Config) (*Broker, error) {
	cfg.KillTimeout = cmp.Or(cfg.KillTimeout, 5*time.Second)
	b := &Broker{cfg: cfg, uid: os.Getuid(), conns: map[net.Conn]bool{}, requests: map[string]int{}, journal: newEventlog()}
	if b.uid != 0 {
		b.cfg.Owner = nil
	}
	if b.cfg.Owner != nil {
		b.uid = b.cfg.Owner.UID
	}
	for rank, n := range cfg.Nodes {
		b.nodes = append(b.nodes, newNode(rank, n))
	}
	if err := b.listen(); err != nil {
		return nil, fmt.Errorf("starting the double of a Flux broker: %w", err)
	}
	return b, nil
}

func (b *Broker) listen() error {
	listener, err := net.Listen("unix", b.socket())
	if err != nil {
		return err
	}
	if err := b.give(b.socket()); err != nil {
		return errors.Join(err, listener.Close())
	}
	b.listener = listener
	b.serving.Go(func() { b.accept(listener) })
	return nil
}

// give makes a file the owner's.
func (b *Broker) give(path string) error {
	if b.cfg.Owner == nil {
		return nil
	}
	return os.Chown(path, b.cfg.Owner.UID, b.cfg.Owner.GID)
}

func (b *Broker) socket() string { return filepath.Join(b.cfg.Dir, "local") }

// URI is where the broker is reached.
func (b *Broker) URI() string { return "local://" + b.socket() }

// Requests tells how often a method was called.
func (b *Broker) Requests(topic string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[topic]
}

// Crash breaks all connections and takes no new ones, as the death of a broker does. The
// jobs' processes run on, as they do then; Close ends them.
func (b *Broker) Crash() {
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.listener.Close()
	b.serving.Wait()
}

// Resume takes connections again after Crash, and knows all jobs, as a system instance
// does whose broker was restarted.
func (b *Broker) Resume() error {
	if err := b.listen(); err != nil {
		return fmt.Errorf("starting the double of a Flux broker again: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = false
	b.schedule()
	return nil
}

// Close ends everything, all processes included.
func (b *Broker) Close() {
	b.Crash()
	b.mu.Lock()
	for _, j := range b.jobs {
		j.signal(syscall.SIGKILL)
	}
	b.mu.Unlock()
	b.tasks.Wait()
}

func (b *Broker) accept(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.closed {
			c.Close()
		} else {
			b.conns[c] = true
			b.serving.Go(func() { b.serve(c) })
		}
		b.mu.Unlock()
	}
}

// peer is one connection and what it has running.
type peer struct {
	broker *Broker
	ctx    context.Context
	conn   net.Conn

	mu      sync.Mutex // of what follows
	streams map[uint32]context.CancelFunc
	// answers wait here for the client to read: requests are read meanwhile, or both
	// would wait for each other.
	answers [][]byte
	ready   chan struct{}
}

// write sends the answers until the connection ends.
func (p *peer) write() {
	for {
		select {
		case <-p.ready:
		case <-p.ctx.Done():
			return
		}
		p.mu.Lock()
		answers := p.answers
		p.answers = nil
		p.mu.Unlock()
		for _, a := range answers {
			if _, err := p.conn.Write(a); err != nil {
				p.conn.Close()
				return
			}
		}
	}
}

func (b *Broker) serve(c net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		cancel()
		c.Close()
		b.mu.Lock()
		delete(b.conns, c)
		b.mu.Unlock()
	}()
	const accepted = 0
	if _, err := c.Write([]byte{accepted}); err != nil {
		return
	}
	p := &peer{broker: b, ctx: ctx, conn: c, streams: map[uint32]context.CancelFunc{}, ready: make(chan struct{}, 1)}
	b.serving.Go(p.write)
	in := bufio.NewReader(c)
	for {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		if m.kind == typeRequest {
			p.handle(m)
		}
	}
}

// failure is an answer that is none.
type failure struct {
	errno syscall.Errno
	text  string
}

func (f *failure) Error() string { return f.text }

func refuse(errno syscall.Errno, format string, args ...any) error {
	return &failure{errno: errno, text: fmt.Sprintf(format, args...)}
}

// service is a method that answers once. It is called with the broker locked.
type service func(b *Broker, request []byte) (any, error)

func services() map[string]service {
	return map[string]service{
		"attr.get":              (*Broker).getAttribute,
		"job-ingest.submit":     (*Broker).submit,
		"job-manager.raise":     (*Broker).raise,
		"job-manager.kill":      (*Broker).kill,
		"job-manager.urgency":   (*Broker).urgency,
		"job-list.list":         (*Broker).list,
		"job-list.list-id":      (*Broker).listID,
		"job-info.lookup":       (*Broker).lookup,
		"resource.status":       (*Broker).resourceStatus,
		"resource.sched-status": (*Broker).schedStatus,
		"config.get":            (*Broker).getConfig,
	}
}

func (p *peer) handle(m message) {
	b := p.broker
	text := m.payload
	if n := len(text); n > 0 && text[n-1] == 0 {
		text = text[:n-1]
	}
	b.mu.Lock()
	b.requests[m.topic]++
	b.mu.Unlock()
	switch m.topic {
	case "job-info.eventlog-watch":
		p.watch(m, text)
		return
	case "job-manager.events-journal":
		p.watchJournal(m, text)
		return
	case "job-info.eventlog-watch-cancel", "job-manager.events-journal-cancel":
		p.cancelWatch(text)
		return
	}
	call, known := services()[m.topic]
	if !known {
		p.answer(m, nil, refuse(syscall.ENOSYS, "Unknown service method '%s'", m.topic))
		return
	}
	b.mu.Lock()
	answer, err := call(b, text)
	b.mu.Unlock()
	p.answer(m, answer, err)
}

// answer has a response sent. One that cannot be sent has nobody who waits for it.
func (p *peer) answer(m message, answer any, err error) {
	if m.flags&flagNoResponse != 0 {
		return
	}
	r := message{
		kind: typeResponse, flags: m.flags&(flagRoute|flagStreaming) | flagTopic,
		userID: uint32(p.broker.uid), roles: roleOwner, matchtag: m.matchtag, routes: m.routes, topic: m.topic,
	}
	if err == nil && answer != nil {
		r.payload, err = json.Marshal(answer)
	}
	if err != nil {
		f := &failure{errno: syscall.EPROTO, text: err.Error()}
		errors.As(err, &f)
		r.number, r.payload = uint32(f.errno), []byte(f.text)
	}
	if len(r.payload) > 0 {
		r.flags |= flagPayload
		r.payload = append(r.payload, 0)
	}
	p.mu.Lock()
	p.answers = append(p.answers, r.encode())
	p.mu.Unlock()
	select {
	case p.ready <- struct{}{}:
	default: // it is known already
	}
}

func read[T any](text []byte) (T, error) {
	var in T
	if err := json.Unmarshal(text, &in); err != nil {
		return in, refuse(syscall.EPROTO, "%v", err)
	}
	return in, nil
}

// Version is what the double gives as its version: nobody takes it for a Flux.
const Version = "0.0.0-double"

func (b *Broker) getAttribute(text []byte) (any, error) {
	in, err := read[struct{ Name string }](text)
	if err != nil {
		return nil, err
	}
	value, known := map[string]string{
		"rank": "0", "size": fmt.Sprint(len(b.nodes)), "version": Version,
		"security.owner": fmt.Sprint(b.uid), "local-uri": b.URI(), "rundir": b.cfg.Dir,
	}[in.Name]
	if !known {
		return nil, refuse(syscall.ENOENT, "No such file or directory")
	}
	return map[string]any{"value": value, "flags": 1}, nil
}

func (b *Broker) getConfig([]byte) (any, error) {
	config := map[string]any{"exec": map[string]string{"kill-timeout": b.cfg.KillTimeout.String()}}
	if len(b.cfg.Queues) > 0 {
		queues := map[string]any{}
		for _, q := range b.cfg.Queues {
			queues[q] = map[string]any{}
		}
		config["queues"] = queues
	}
	return config, nil
}
