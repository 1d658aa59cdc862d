//go:build cgo && linux

package flux

// #cgo CFLAGS: -Wall -Wextra -O1
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// loop is a connection through libflux. Everything of libflux's is used by one goroutine
// on one thread, run: libflux has no locks, and errno is a thread's own. Others queue
// what it is to do and wake it.
type loop struct {
	libraryVersion string

	mu     sync.Mutex
	queue  []func()
	shim   *C.struct_shim // nil unless there is one to wake
	closed bool
	why    error
	gone   chan struct{}
	exited chan struct{}

	// run's own.
	calls  map[uint64]*call
	tags   uint64
	broken error // what a request met that could not be sent
}

// call is a request that waits for answers. It is run's own.
type call struct {
	request request
	deliver func(reply)
	c       *C.struct_shim_call
}

var _ conn = (*loop)(nil)

// dial connects. When ctx ends first, a connection that is still made is closed.
func dial(ctx context.Context, library, uri string) (conn, error) {
	l := &loop{gone: make(chan struct{}), exited: make(chan struct{}), calls: map[uint64]*call{}}
	opened := make(chan error, 1)
	go l.run(library, uri, opened)
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
		return l, nil
	case <-ctx.Done():
		l.stop()
		return nil, fmt.Errorf("waiting for the broker to take the connection: %w", context.Cause(ctx))
	}
}

func (l *loop) lost() <-chan struct{} { return l.gone }

func (l *loop) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

func (l *loop) version() string { return l.libraryVersion }

// do has run call f; it reports false when there is no more connection.
func (l *loop) do(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil || l.closed {
		return false
	}
	l.queue = append(l.queue, f)
	if len(l.queue) == 1 && l.shim != nil {
		C.shim_wake(l.shim)
	}
	return true
}

func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.shim != nil {
		C.shim_wake(l.shim)
	}
}

// close waits for run's end: nothing is left of the connection then.
func (l *loop) close() {
	l.stop()
	<-l.exited
}

func (l *loop) send(r request, deliver func(reply)) func() {
	var tag uint64
	if !l.do(func() { tag = l.start(r, deliver) }) {
		deliver(reply{err: l.failure()})
		return func() {}
	}
	return func() { l.do(func() { l.giveUp(tag) }) }
}

func (l *loop) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil {
		return l.why
	}
	return ErrClosed
}

// run has the connection's thread from its beginning to its end.
func (l *loop) run(library, uri string, opened chan<- error) {
	defer close(l.exited)
	// The thread ends with the goroutine: the library may have made it its own.
	runtime.LockOSThread()
	shim, err := open(library, uri)
	if err != nil {
		opened <- err
		return
	}
	l.libraryVersion = C.GoString(C.shim_version(shim))
	l.mu.Lock()
	l.shim = shim
	l.mu.Unlock()
	opened <- nil
	l.end(l.serve(shim))
	C.shim_close(shim)
}

func open(library, uri string) (*C.struct_shim, error) {
	const longest = 1024
	text := (*C.char)(C.calloc(longest, 1))
	defer C.free(unsafe.Pointer(text))
	path := C.CString(library)
	defer C.free(unsafe.Pointer(path))
	var address *C.char // NULL has the library look for itself
	if uri != "" {
		address = C.CString(uri)
		defer C.free(unsafe.Pointer(address))
	}
	var errno C.int
	shim := C.shim_open(path, address, text, longest, &errno)
	switch {
	case shim != nil:
		return shim, nil
	case errno == 0:
		return nil, fmt.Errorf("%w on this machine: %s; install flux-core, or name the path of its libflux-core.so.2", ErrUnavailable, C.GoString(text))
	}
	return nil, &Error{Call: "connecting to the broker", Errno: syscall.Errno(errno), Text: C.GoString(text)}
}

// serve returns why it has ended.
func (l *loop) serve(shim *C.struct_shim) error {
	for {
		l.mu.Lock()
		queue, closed := l.queue, l.closed
		l.queue = nil
		l.mu.Unlock()
		if closed {
			return ErrClosed
		}
		for _, f := range queue {
			f()
		}
		if l.broken != nil {
			return l.broken
		}
		var results *C.struct_shim_result
		errno := C.shim_step(shim, &results)
		l.pass(results)
		C.shim_free_results(results)
		if errno != 0 {
			return fmt.Errorf("%w: %w", ErrLost, syscall.Errno(errno))
		}
	}
}

// pass hands on answers.
func (l *loop) pass(results *C.struct_shim_result) {
	for r := results; r != nil; r = r.next {
		tag := uint64(r.tag)
		call := l.calls[tag]
		if r.last != 0 {
			delete(l.calls, tag)
		}
		if call == nil {
			continue // given up
		}
		text := C.GoString(r.text)
		if r.errnum != 0 {
			call.deliver(reply{err: &Error{Call: call.request.name(), Errno: syscall.Errno(r.errnum), Text: text}})
			continue
		}
		call.deliver(reply{payload: text})
	}
}

// end fails everything that waits, and everything that is still asked for.
func (l *loop) end(why error) {
	l.mu.Lock()
	l.why, l.shim = why, nil
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	close(l.gone)
	for _, call := range l.calls {
		C.shim_drop(call.c)
		call.deliver(reply{err: why})
	}
	l.calls = nil
	// What was asked for meanwhile fails as well: start finds no shim.
	for _, f := range queue {
		f()
	}
}

// start is called by run.
func (l *loop) start(r request, deliver func(reply)) uint64 {
	if l.calls == nil {
		deliver(reply{err: l.failure()})
		return 0
	}
	l.tags++
	payload := C.CString(r.payload)
	defer C.free(unsafe.Pointer(payload))
	var errno C.int
	c := l.call(r, payload, &errno)
	switch {
	case c == nil && isLoss(syscall.Errno(errno)):
		// The library looks at the socket only while it waits for answers: that the
		// broker has gone is seen by the next request.
		l.broken = fmt.Errorf("%w: %w", ErrLost, syscall.Errno(errno))
		deliver(reply{err: l.broken})
		return 0
	case c == nil:
		deliver(reply{err: &Error{Call: r.name(), Errno: syscall.Errno(errno)}})
		return 0
	}
	l.calls[l.tags] = &call{request: r, deliver: deliver, c: c}
	return l.tags
}

// isLoss tells whether a request could not be sent for want of a connection.
func isLoss(errno syscall.Errno) bool {
	return errno == syscall.EPIPE || errno == syscall.ECONNRESET || errno == syscall.ENOTCONN
}

func (l *loop) call(r request, payload *C.char, errno *C.int) *C.struct_shim_call {
	if r.submit {
		return C.shim_submit(l.shim, C.uint64_t(l.tags), payload, C.int(r.urgency), C.int(r.flags), errno)
	}
	topic := C.CString(r.topic)
	defer C.free(unsafe.Pointer(topic))
	flags := 0
	if r.streaming {
		flags = C.SHIM_STREAMING
	}
	return C.shim_rpc(l.shim, C.uint64_t(l.tags), topic, payload, C.uint32_t(r.node), C.int(flags), errno)
}

// giveUp is called by run. A stream is ended at the broker as well.
func (l *loop) giveUp(tag uint64) {
	call := l.calls[tag]
	if call == nil {
		return // it has been answered
	}
	delete(l.calls, tag)
	if call.request.cancelTopic != "" {
		l.cancelStream(call)
	}
	C.shim_drop(call.c)
}

func (l *loop) cancelStream(call *call) {
	text, err := json.Marshal(map[string]uint32{"matchtag": uint32(C.shim_matchtag(call.c))})
	if err != nil {
		return // a number can always be written
	}
	topic, payload := C.CString(call.request.cancelTopic), C.CString(string(text))
	defer C.free(unsafe.Pointer(topic))
	defer C.free(unsafe.Pointer(payload))
	var errno C.int
	// It has no answer. If it cannot be sent, the connection is lost anyway.
	C.shim_rpc(l.shim, 0, topic, payload, C.uint32_t(call.request.node), C.SHIM_NO_RESPONSE, &errno)
}
