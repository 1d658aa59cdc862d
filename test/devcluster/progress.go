package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// progress tells the user what happens, one short line each.
type progress struct {
	began time.Time
	out   io.Writer
	// pipe leads to the waiting `up --detach`, if there is one.
	pipe *os.File
}

// newProgress takes the number of an inherited pipe, or 0.
func newProgress(pipeFD int) *progress {
	p := &progress{began: time.Now(), out: os.Stderr}
	if pipeFD > 0 {
		// The components must not inherit it: the reader waits until the last copy is closed.
		unix.CloseOnExec(pipeFD)
		p.pipe = os.NewFile(uintptr(pipeFD), "progress")
	}
	return p
}

func (p *progress) say(format string, args ...any) {
	line := fmt.Sprintf("%5.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
	// There is nobody left to tell that telling failed.
	_, _ = io.WriteString(p.out, line)
	if p.pipe != nil {
		_, _ = io.WriteString(p.pipe, line)
	}
}

// done lets the waiting `up --detach` go.
func (p *progress) done() {
	if p.pipe != nil {
		_ = p.pipe.Close()
		p.pipe = nil
	}
}
