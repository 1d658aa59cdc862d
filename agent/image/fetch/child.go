package fetch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/image/registry"
	"github.com/gangline/gangline/agent/image/tool"
)

// every is how often progress is told.
const every = time.Second

// message is one line of a child's output.
type message struct {
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Failure  *failure  `json:"failure,omitempty"`
}

// failure is an error on its way between processes.
type failure struct {
	Message     string `json:"message"`
	Unavailable bool   `json:"unavailable,omitempty"`
	NoSpace     bool   `json:"noSpace,omitempty"`
}

// Failure is an error of a job that was done in another process.
type Failure struct{ failure }

func (f *Failure) Error() string { return f.Message }

// Unavailable says that the registry is to blame, and that it may pass.
func Unavailable(err error) bool {
	var f *Failure
	var r *registry.Error
	return errors.As(err, &f) && f.failure.Unavailable || errors.As(err, &r) && r.Unavailable
}

// NoSpace says that the store's filesystem, or the user's part of it, is full.
func NoSpace(err error) bool {
	var f *Failure
	return errors.As(err, &f) && f.failure.NoSpace || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// InChild does a job in a process of its own, by the program (this one's file) with the
// argument "pull". run starts that process and waits for it.
func InChild(ctx context.Context, run tool.Runner, program string, j Job, progress func(Progress)) (*Result, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a process to pull: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a process to pull: %w", errors.Join(err, theirIn.Close(), in.Close()))
	}
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{program, "pull", "--job"}, theirIn, theirOut)
		// With its ends of the pipes closed nobody waits at ours.
		ended <- errors.Join(err, theirIn.Close(), theirOut.Close())
	}()
	sendErr := json.NewEncoder(in).Encode(j)
	var last message
	decoder := json.NewDecoder(out)
	for {
		var m message
		if decoder.Decode(&m) != nil {
			break
		}
		if m.Progress != nil {
			progress(*m.Progress)
			continue
		}
		last = m
	}
	// The end of its input is the child's.
	closeErr := errors.Join(in.Close(), out.Close())
	runErr := <-ended
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case last.Failure != nil:
		return nil, &Failure{*last.Failure}
	case last.Result != nil:
		return last.Result, nil
	}
	return nil, fmt.Errorf("the process that pulls has ended without a result: %w", errors.Join(runErr, sendErr, closeErr))
}

// Main is the child: it does the job that comes on in.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	stepBack()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reader := bufio.NewReader(in)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	var j Job
	if json.Unmarshal(line, &j) != nil {
		return errors.New("the job cannot be read") // it holds secrets
	}
	go func() {
		_, _ = io.Copy(io.Discard, reader) // ends with who asked
		cancel()
	}()
	encoder := json.NewEncoder(out)
	var mu sync.Mutex
	send := func(m message) error {
		mu.Lock()
		defer mu.Unlock()
		return encoder.Encode(m)
	}
	result, err := Run(ctx, j, func(p Progress) {
		_ = send(message{Progress: &p}) // the result is what counts
	})
	if err != nil {
		return send(message{Failure: &failure{Message: err.Error(), Unavailable: Unavailable(err), NoSpace: NoSpace(err)}})
	}
	return send(message{Result: result})
}

// report calls tell now and then until stop is called, which waits for the last call.
func report(tell func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				tell()
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Of ionice(1): best effort, its last level.
const ioprioLowest = 2<<13 | 7

// stepBack gives this process's threads a low priority: other pods of the node run.
// Priorities are each thread's own on Linux, and new threads have their maker's.
func stepBack() {
	const nice, whoProcess = 10, 1
	threads, _ := filepath.Glob("/proc/self/task/*")
	for _, t := range threads {
		id, err := strconv.Atoi(filepath.Base(t))
		if err != nil {
			continue
		}
		_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice) // without it, it works too
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(id), ioprioLowest)
	}
}
