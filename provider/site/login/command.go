package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/provider/site/gateway"
)

// script is a constant that /bin/sh runs, whatever the user's login shell is. It
// has no single quotes, exclamation marks or line ends, so every login shell hands it
// on as it is.
type script string

// line is the command line of a script with arguments that checkPath or the like has
// found harmless.
func (s script) line(args ...string) string {
	return "exec /bin/sh -c '" + string(s) + "' sh " + strings.Join(args, " ")
}

// mark goes before what a script prints, to tell it from what login shells print.
const mark = "gangline-login:"

// session opens a session. Unlike the library's own method it heeds a context.
func (c *connection) session(ctx context.Context) (*ssh.Session, error) {
	type opened struct {
		session *ssh.Session
		err     error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := c.NewSession()
		done <- opened{s, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, fmt.Errorf("opening a session on the login node: %w", o.err)
		}
		return o.session, nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.err == nil {
				_ = o.session.Close()
			}
		}()
		return nil, fmt.Errorf("opening a session on the login node: %w", context.Cause(ctx))
	}
}

// run runs a script and returns the marked lines of its output.
func (c *connection) run(ctx context.Context, stdin io.Reader, s script, args ...string) ([]string, error) {
	session, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	defer session.Close() //nolint:errcheck // it has ended
	hangUp := context.AfterFunc(ctx, func() { _ = session.Close() })
	defer hangUp()
	var stdout bytes.Buffer
	var stderr gateway.Words
	session.Stdout, session.Stderr, session.Stdin = &bounded{&stdout, maxOutput}, &stderr, stdin
	err = session.Run(s.line(args...))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &scriptError{err, stderr.String()}
	}
	var lines []string
	for line := range strings.Lines(stdout.String()) {
		if _, text, ok := strings.Cut(line, mark); ok {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines, nil
}

// maxOutput bounds what scripts and login shells print.
const maxOutput = 1 << 20

type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	if _, err := b.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// scriptError is a script that has failed.
type scriptError struct {
	err   error
	words string
}

func (e *scriptError) Error() string {
	if e.words == "" {
		return e.err.Error()
	}
	return e.words + " (" + e.err.Error() + ")"
}

func (e *scriptError) Unwrap() error { return e.err }

// status is the exit status of what ran on the login node, or -1.
func status(err error) int {
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return exit.ExitStatus()
	}
	return -1
}

// endWithin is how long a command's exit status is waited for once its output has
// ended.
const endWithin = 2 * time.Second
