package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/terminal"
)

// quiet is how long the output may be silent, after the process's end, before it is
// taken to be complete.
const quiet = 500 * time.Millisecond

// Options are how a process's standard streams are opened.
type Options struct {
	// Stdin holds standard input open; without it the process reads nothing.
	Stdin bool
	// StdinOnce closes standard input when the first client that has it ends. It has
	// no meaning with a terminal, which stays for the next client.
	StdinOnce bool
	// TTY makes all three one terminal.
	TTY bool
	// Dir is a directory for what clients have still to get.
	Dir string
}

// Console is the standard streams of one process. Its methods may be called from
// several goroutines.
type Console struct {
	options  Options
	terminal *terminal.Terminal // nil for none
	process  sandbox.Streams
	own      []*os.File // the process's ends, closed once it has them
	stdin    *os.File   // nil where it is not held open
	outputs  [streams]*os.File

	mu      sync.Mutex
	clients map[*joined]bool
	ended   bool
}

// The output streams.
const (
	stdout = iota
	stderr
	streams
)

// Open opens the streams of a process that is to be started.
func Open(o Options) (*Console, error) {
	c := &Console{options: o, clients: map[*joined]bool{}}
	open := c.openPipes
	if o.TTY {
		open = c.openTerminal
	}
	if err := open(); err != nil {
		c.Close()
		return nil, fmt.Errorf("opening the standard streams: %w", err)
	}
	return c, nil
}

func (c *Console) openTerminal() error {
	term, err := terminal.Open()
	if err != nil {
		return err
	}
	c.terminal, c.own = term, []*os.File{term.Program}
	c.process = sandbox.Streams{Stdin: term.Program, Stdout: term.Program, Stderr: term.Program, Terminal: true}
	c.outputs[stdout] = term.Master
	if c.options.Stdin {
		c.stdin = term.Master
	}
	return nil
}

func (c *Console) openPipes() error {
	for i, end := range [streams]**os.File{&c.process.Stdout, &c.process.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		c.outputs[i], *end = r, w
		c.own = append(c.own, w)
	}
	var err error
	if c.options.Stdin {
		c.process.Stdin, c.stdin, err = os.Pipe()
	} else {
		c.process.Stdin, err = os.Open(os.DevNull)
	}
	if err == nil {
		c.own = append(c.own, c.process.Stdin)
	}
	return err
}

// Process is what the process is to be started with.
func (c *Console) Process() sandbox.Streams { return c.process }

// Started lets go of the process's own ends: it has them, or failed to start.
func (c *Console) Started() {
	for _, f := range c.own {
		_ = f.Close()
	}
}

// Copy writes what the process writes to its log and passes it on to the clients,
// until the output is complete; ended is closed at the process's end. Then the
// console ends, and its clients leave when they have got everything. With a
// terminal all output is standard output.
func (c *Console) Copy(log [2]io.Writer, ended <-chan struct{}) error {
	var copying sync.WaitGroup
	var errs [streams]error
	for i, from := range c.outputs {
		if from == nil {
			continue
		}
		copying.Go(func() {
			err := process.CopyOutput(output{console: c, stream: i, log: log[i]}, from, ended, quiet)
			if c.options.TTY && errors.Is(err, unix.EIO) {
				err = nil // no process has the terminal any more
			}
			errs[i] = err
		})
	}
	copying.Wait()
	c.Close()
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("reading the process's output: %w", err)
	}
	return nil
}

// Close ends the console: whoever is attached gets what there is and leaves.
func (c *Console) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for j := range c.clients {
		j.end()
	}
	c.Started()
	for _, f := range append([]*os.File{c.stdin}, c.outputs[:]...) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// closeStdin is the end of the process's input. A terminal's is its hang-up, which
// is not for a client to cause.
func (c *Console) closeStdin() {
	if !c.options.TTY {
		_ = c.stdin.Close()
	}
}

// output is where one stream of the process goes.
type output struct {
	console *Console
	stream  int
	log     io.Writer
}

// Write never waits for a client.
func (o output) Write(p []byte) (int, error) {
	n, err := o.log.Write(p)
	o.console.mu.Lock()
	defer o.console.mu.Unlock()
	for j := range o.console.clients {
		if b := j.backlogs[o.stream]; b != nil {
			b.add(p)
		}
	}
	return n, err
}
