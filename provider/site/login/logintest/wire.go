package logintest

import (
	"fmt"
	"net"
	"sync"
)

// Wire is a way to a login node that can be cut as a firewall does it: nothing comes
// through any more, and nobody is told.
type Wire struct {
	// Address is the near end.
	Address string

	listener net.Listener
	far      string

	mu    sync.Mutex
	whole *sync.Cond
	cut   bool
	conns map[net.Conn]bool // true for those at the near end
	done  bool
}

// NewWire makes a wire to an address.
func NewWire(far string) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("laying a wire: %w", err)
	}
	w := &Wire{Address: l.Addr().String(), listener: l, far: far, conns: map[net.Conn]bool{}}
	w.whole = sync.NewCond(&w.mu)
	go w.accept()
	return w, nil
}

// Cut holds back all that is sent, both ways, and what is sent from now on.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
}

// Mend lets everything through again, what was held back included. Connections whose
// ends have given up meanwhile are lost.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = false
	w.whole.Broadcast()
}

// Close takes the wire away.
func (w *Wire) Close() {
	_ = w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.whole.Broadcast()
	for c := range w.conns {
		_ = c.Close()
	}
}

// Open is how many connections are open at the near end.
func (w *Wire) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := 0
	for _, near := range w.conns {
		if near {
			open++
		}
	}
	return open
}

func (w *Wire) accept() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.join(near)
	}
}

func (w *Wire) join(near net.Conn) {
	if !w.add(near, true) {
		return
	}
	w.wait()
	far, err := net.Dial("tcp", w.far)
	if err != nil || !w.add(far, false) {
		w.end(near)
		return
	}
	go w.pass(near, far)
	w.pass(far, near)
}

// add notes a connection, to be closed with the wire.
func (w *Wire) add(c net.Conn, near bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		_ = c.Close()
		return false
	}
	w.conns[c] = near
	return true
}

func (w *Wire) end(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

func (w *Wire) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.wait()
		if n > 0 {
			if _, failed := to.Write(buf[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			w.end(from)
			w.end(to)
			return
		}
	}
}

// wait returns when the wire is whole.
func (w *Wire) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.cut && !w.done {
		w.whole.Wait()
	}
}
