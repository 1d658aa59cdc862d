package attach_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/agenttest"
	"github.com/gangline/gangline/agent/attach"
	"github.com/gangline/gangline/agent/sshd"
)

// program stands for the process on a console: the tests write and read in its
// place.
type program struct {
	t              *testing.T
	console        *attach.Console
	stdin          *os.File
	stdout, stderr *os.File
	ended          chan struct{}
	copied         chan error
	logs           [2]*agenttest.Output
}

func start(t *testing.T, o attach.Options) *program {
	t.Helper()
	o.Dir = t.TempDir()
	console, err := attach.Open(o)
	require.NoError(t, err)
	streams := console.Process()
	p := &program{
		t: t, console: console, ended: make(chan struct{}), copied: make(chan error, 1),
		logs: [2]*agenttest.Output{{}, {}},
	}
	for to, file := range map[**os.File]*os.File{&p.stdin: streams.Stdin, &p.stdout: streams.Stdout, &p.stderr: streams.Stderr} {
		*to = duplicate(t, file)
	}
	console.Started()
	go func() { p.copied <- console.Copy([2]io.Writer{p.logs[0], p.logs[1]}, p.ended) }()
	t.Cleanup(func() { p.end() })
	return p
}

// duplicate is what a process gets of a file.
func duplicate(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fd), f.Name())
}

// columns is the width of the terminal that a file is.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

func (p *program) write(text string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdout, text)
	require.NoError(p.t, err)
}

// end ends the program and waits for the console.
func (p *program) end() {
	select {
	case <-p.ended:
		return
	default:
	}
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close()
	}
	close(p.ended)
	assert.NoError(p.t, <-p.copied)
}

// attach joins a client in the background.
func (p *program) attach(client attach.Client) (done chan error, leave func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done = make(chan error, 1)
	joined := make(chan struct{})
	go func() {
		close(joined)
		done <- p.console.Attach(ctx, client)
	}()
	<-joined
	return done, cancel
}

// joined writes until the client gets something: from then on it gets everything.
func (p *program) joined(out *agenttest.Output) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		p.write("?")
		return out.String() != ""
	}, 10*time.Second, 5*time.Millisecond)
}

func within(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		require.Fail(t, "the client does not leave")
		return nil
	}
}

func TestAClientGetsTheOutputFromNowOn(t *testing.T) {
	p := start(t, attach.Options{})
	p.write("before ")
	p.logs[0].WaitFor(t, "before ")
	var out, errs agenttest.Output
	done, _ := p.attach(attach.Client{Stdout: &out, Stderr: &errs})
	p.joined(&out)
	p.write("after")
	_, err := io.WriteString(p.stderr, "trouble")
	require.NoError(t, err)
	p.end()
	require.NoError(t, within(t, done))
	assert.NotContains(t, out.String(), "before")
	assert.True(t, strings.HasSuffix(out.String(), "after"), out.String())
	assert.Equal(t, "trouble", errs.String())
	assert.True(t, strings.HasPrefix(p.logs[0].String(), "before ?"), p.logs[0].String())
	assert.ErrorIs(t, p.console.Attach(t.Context(), attach.Client{Stdout: &out}), attach.ErrEnded)
}

func TestSeveralClientsGetTheSame(t *testing.T) {
	p := start(t, attach.Options{})
	outs := make([]agenttest.Output, 5)
	var dones []chan error
	for i := range outs {
		done, _ := p.attach(attach.Client{Stdout: &outs[i]})
		dones = append(dones, done)
		p.joined(&outs[i])
	}
	text := strings.Repeat("0123456789", 1<<16)
	p.write(text)
	p.end()
	for i := range outs {
		require.NoError(t, within(t, dones[i]))
		assert.True(t, strings.HasSuffix(outs[i].String(), text), "client %d got %d bytes", i, len(outs[i].String()))
	}
}

// stuck is a client that takes nothing until it is let go.
type stuck struct{ let chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.let
	return len(p), nil
}

func TestASlowClientHoldsUpNobodyAndMissesNothing(t *testing.T) {
	p := start(t, attach.Options{})
	let := make(chan struct{})
	var quick, slow agenttest.Output
	quickDone, _ := p.attach(attach.Client{Stdout: &quick})
	slowDone, _ := p.attach(attach.Client{Stdout: writerFunc(func(b []byte) (int, error) {
		<-let
		return slow.Write(b)
	})})
	p.joined(&quick)
	text := strings.Repeat("0123456789abcdef", 1<<20) // more than pipes and buffers hold
	p.write(text)
	p.end()
	require.NoError(t, within(t, quickDone))
	assert.True(t, strings.HasSuffix(quick.String(), text))
	assert.True(t, strings.HasSuffix(p.logs[0].String(), text))
	close(let)
	require.NoError(t, within(t, slowDone))
	assert.True(t, strings.HasSuffix(slow.String(), text), "%d bytes", len(slow.String()))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestADeadClientLeaves(t *testing.T) {
	for sentence, client := range map[string]func(cancel func()) io.Writer{
		"one whose connection fails": func(func()) io.Writer {
			return writerFunc(func([]byte) (int, error) { return 0, errors.New("broken") })
		},
		"one that hangs and whose connection ends": func(cancel func()) io.Writer {
			return writerFunc(func(b []byte) (int, error) {
				cancel()
				return stuck{}.Write(b)
			})
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p := start(t, attach.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.console.Attach(ctx, attach.Client{Stdout: client(cancel)}) }()
			var other agenttest.Output
			_, leave := p.attach(attach.Client{Stdout: &other})
			defer leave()
			p.joined(&other)
			require.Error(t, within(t, done))
			p.write("still here")
			other.WaitFor(t, "still here")
		})
	}
}

func TestInputReachesTheProcess(t *testing.T) {
	p := start(t, attach.Options{Stdin: true})
	for _, text := range []string{"first", "second"} { // clients
		done, _ := p.attach(attach.Client{Stdin: strings.NewReader(text), Stdout: io.Discard})
		got := make([]byte, len(text))
		_, err := io.ReadFull(p.stdin, got)
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
		require.NoError(t, within(t, done), "its input is over, and so is its visit")
	}
}

func TestInputEndsWithTheFirstClientOfStdinOnce(t *testing.T) {
	p := start(t, attach.Options{Stdin: true, StdinOnce: true})
	var out agenttest.Output
	done, _ := p.attach(attach.Client{Stdin: strings.NewReader("all"), Stdout: &out})
	got, err := io.ReadAll(p.stdin)
	require.NoError(t, err)
	assert.Equal(t, "all", string(got))
	p.write("answer")
	out.WaitFor(t, "answer")
	p.end()
	require.NoError(t, within(t, done), "it stays for the answer")
}

func TestAClientThatGoesIsTheEndOfStdinOnce(t *testing.T) {
	p := start(t, attach.Options{Stdin: true, StdinOnce: true})
	typing, _ := io.Pipe() // a client that says nothing
	var out agenttest.Output
	done, leave := p.attach(attach.Client{Stdin: typing, Stdout: &out})
	p.joined(&out)
	leave()
	require.ErrorIs(t, within(t, done), context.Canceled)
	got, err := io.ReadAll(p.stdin)
	require.NoError(t, err)
	assert.Empty(t, got)
	// The next one gets output only.
	var late agenttest.Output
	_, leave = p.attach(attach.Client{Stdin: strings.NewReader("x"), Stdout: &late})
	defer leave()
	p.joined(&late)
	p.write("later")
	late.WaitFor(t, "later")
}

func TestWithoutStdinAClientIsListenedToByNobody(t *testing.T) {
	p := start(t, attach.Options{})
	var out agenttest.Output
	done, _ := p.attach(attach.Client{Stdin: strings.NewReader("x"), Stdout: &out})
	p.joined(&out)
	n, err := p.stdin.Read(make([]byte, 1))
	assert.Zero(t, n)
	assert.ErrorIs(t, err, io.EOF)
	p.end()
	require.NoError(t, within(t, done))
}

func TestAProcessThatClosesItsInputKeepsItsClients(t *testing.T) {
	p := start(t, attach.Options{Stdin: true})
	require.NoError(t, p.stdin.Close())
	var out agenttest.Output
	_, leave := p.attach(attach.Client{Stdin: strings.NewReader("x"), Stdout: &out})
	defer leave()
	p.joined(&out)
	p.write("on")
	out.WaitFor(t, "on")
}

func TestATerminal(t *testing.T) {
	p := start(t, attach.Options{Stdin: true, StdinOnce: true, TTY: true})
	keys, typed := io.Pipe()
	resize := make(chan sshd.Size, 1)
	resize <- sshd.Size{Columns: 99, Rows: 33}
	var out agenttest.Output
	done, leave := p.attach(attach.Client{Stdin: keys, Stdout: &out, Resize: resize})
	p.joined(&out)
	_, err := io.WriteString(typed, "hello\n")
	require.NoError(t, err)
	line := make([]byte, 16)
	n, err := p.stdin.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(line[:n]))
	out.WaitFor(t, "hello\r\n")
	p.logs[0].WaitFor(t, "hello\r\n")
	require.Eventually(t, func() bool { return columns(p.stdout) == 99 }, 10*time.Second, time.Millisecond)

	// Who goes does not hang up on the process: the next one finds it there.
	leave()
	require.ErrorIs(t, within(t, done), context.Canceled)
	keys, typed = io.Pipe()
	done, _ = p.attach(attach.Client{Stdin: keys, Stdout: &out})
	_, err = io.WriteString(typed, "again\n")
	require.NoError(t, err)
	n, err = p.stdin.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "again\n", string(line[:n]))
	p.end()
	require.NoError(t, within(t, done))
}
