package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/sitetest"
)

const patience = 20 * time.Second

// TestMain makes this program a gateway where it is told to be one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "gateway" {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		if err := gateway.Serve(context.Background(), os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a gateway that is a process, as a client sees it.
type process struct {
	io.Reader
	io.WriteCloser
	cmd   *exec.Cmd
	ended chan struct{}
}

func start(t *testing.T) *process {
	t.Helper()
	p := &process{cmd: exec.Command("/proc/self/exe", "gateway"), ended: make(chan struct{})}
	var err error
	p.WriteCloser, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, childOut, err := os.Pipe()
	require.NoError(t, err)
	p.Reader, p.cmd.Stdout, p.cmd.Stderr = out, childOut, t.Output()
	p.cmd.WaitDelay = time.Second
	require.NoError(t, p.cmd.Start())
	require.NoError(t, childOut.Close())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = out.Close()
	})
	return p
}

// Close implements io.Closer: both of the embedded have it.
func (p *process) Close() error { return p.WriteCloser.Close() }

func (p *process) waitEnded(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.Fail(t, "the gateway does not end")
	}
}

func connect(t *testing.T, p io.ReadWriteCloser, o gateway.Options) *gateway.Client {
	t.Helper()
	c, err := gateway.New(t.Context(), p, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAGatewaysSite(t *testing.T) {
	c := connect(t, start(t), gateway.Options{Lock: filepath.Join(t.TempDir(), "lock")})
	sitetest.Run(t, c, t.TempDir())
}

// shell is a command line for a shell, for tests only.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func fifo(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "go-on")
	const ownerOnly = 0o600
	require.NoError(t, syscall.Mkfifo(path, ownerOnly))
	return path
}

func appears(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool { return exists(path) }, patience, 5*time.Millisecond, path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAGatewayEndsWithItsInputAndEndsWhatItRuns(t *testing.T) {
	p, dir := start(t), t.TempDir()
	c := connect(t, p, gateway.Options{})
	pid := filepath.Join(dir, "pid")
	failed := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), site.Command{Argv: shell("echo $$ >" + pid + "; mv " + pid + " " + pid + "s; exec sleep 300")})
		failed <- err
	}()
	appears(t, pid+"s")
	require.NoError(t, c.Close())
	assert.ErrorIs(t, <-failed, site.ErrUnreachable)
	p.waitEnded(t)
	assert.True(t, p.cmd.ProcessState.Success())
	text, err := os.ReadFile(pid + "s")
	require.NoError(t, err)
	assert.NoDirExists(t, "/proc/"+strings.TrimSpace(string(text)))
	_, err = c.List(t.Context(), "/")
	assert.ErrorIs(t, err, site.ErrUnreachable)
}

func TestAKilledGatewayHasTaughtNothing(t *testing.T) {
	p := start(t)
	c := connect(t, p, gateway.Options{})
	failed := make(chan error, 1)
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		_, err := c.Run(t.Context(), site.Command{Argv: shell("echo >" + started + "; exec sleep 1")})
		failed <- err
	}()
	appears(t, started)
	require.NoError(t, p.cmd.Process.Kill())
	assert.ErrorIs(t, <-failed, site.ErrUnreachable)
}

func TestTheNextGatewayWaitsForAnSbatchOfAKilledOne(t *testing.T) {
	dir := t.TempDir()
	lock, goOn, started := filepath.Join(dir, "lock"), fifo(t, dir), filepath.Join(dir, "started")
	first := start(t)
	c := connect(t, first, gateway.Options{Lock: lock})
	go func() {
		_, _ = c.Run(t.Context(), site.Command{Argv: shell("echo >" + started + "; read line <" + goOn), Locked: true})
	}()
	appears(t, started)
	require.NoError(t, first.cmd.Process.Kill())
	first.waitEnded(t)

	notices := make(chan string, 1)
	type result struct {
		client *gateway.Client
		err    error
	}
	done := make(chan result, 1)
	pace := gateway.Pace{Every: 20 * time.Millisecond, Patience: 500 * time.Millisecond} // it must not fall silent meanwhile
	go func() {
		next, err := gateway.New(t.Context(), start(t), gateway.Options{Lock: lock, Pace: pace, Notice: func(text string) { notices <- text }})
		done <- result{next, err}
	}()
	assert.Contains(t, <-notices, lock)
	select {
	case r := <-done:
		require.Fail(t, "it does not wait", "%v", r.err)
	case <-time.After(time.Second):
	}
	require.NoError(t, os.WriteFile(goOn, []byte("\n"), 0))
	r := <-done
	require.NoError(t, r.err)
	require.NoError(t, r.client.Close())
}

func TestAGatewayThatIsToEndWaitsForItsSbatch(t *testing.T) {
	dir := t.TempDir()
	goOn, started, finished := fifo(t, dir), filepath.Join(dir, "started"), filepath.Join(dir, "finished")
	p := start(t)
	c := connect(t, p, gateway.Options{Lock: filepath.Join(dir, "lock")})
	go func() {
		_, _ = c.Run(t.Context(), site.Command{Argv: shell("echo >" + started + "; read line <" + goOn + "; echo out; echo >" + finished), Locked: true})
	}()
	appears(t, started)
	require.NoError(t, c.Close())
	require.NoError(t, p.Reader.(*os.File).Close()) // an answer would be a broken pipe
	select {
	case <-p.ended:
		require.Fail(t, "it does not wait")
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, os.WriteFile(goOn, []byte("\n"), 0))
	p.waitEnded(t)
	assert.True(t, exists(finished))
}

func TestSilence(t *testing.T) {
	pace := gateway.Pace{Every: 50 * time.Millisecond, Patience: 500 * time.Millisecond}
	t.Run("a gateway whose client is silent ends", func(t *testing.T) {
		p := start(t)
		c := connect(t, &mute{process: p}, gateway.Options{Pace: pace})
		p.waitEnded(t)
		<-c.Done()
		assert.False(t, p.cmd.ProcessState.Success())
	})
	t.Run("a client whose gateway is silent gives it up", func(t *testing.T) {
		p := start(t)
		c := connect(t, p, gateway.Options{Pace: pace})
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
		var err error
		for err == nil { // it stops at some moment
			_, err = c.List(t.Context(), "/")
		}
		assert.ErrorIs(t, err, site.ErrUnreachable)
		assert.ErrorContains(t, err, "silent")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		p.waitEnded(t)
	})
	t.Run("both live while they speak", func(t *testing.T) {
		p := start(t)
		c := connect(t, p, gateway.Options{Pace: pace})
		_, err := c.Run(t.Context(), site.Command{Argv: []string{"/bin/sleep", "2"}})
		assert.NoError(t, err)
	})
}

// mute passes on the client's first message only, as a network that is cut.
type mute struct {
	*process
	said atomic.Int64
}

func (m *mute) Write(p []byte) (int, error) {
	const hello = 60 // bytes, at most
	if m.said.Add(int64(len(p))) > 2*hello {
		return len(p), nil
	}
	return m.process.Write(p)
}

func TestGreetings(t *testing.T) {
	for sentence, tc := range map[string]struct{ said, want string }{
		"what is no gateway is shown":         {"This account is currently not available.\n", "This account is currently not available."},
		"another protocol is refused":         {"Welcome!\ngangline-gateway protocol 12\n", "speaks protocol 12"},
		"an endless greeting is cut":          {strings.Repeat("xxxxxxxx\n", 1<<18), "no greeting"},
		"an endless line is cut":              {strings.Repeat("x", 2<<20), "no greeting"},
		"lengths that are too long":           {greeting + "\xff\xff\xff\xff\xff\xff\xff\xff", "larger than anything"},
		"a header that is no JSON":            {greeting + lengths(3, 0) + "xyz", "invalid character"},
		"parts that are longer than the body": {greeting + lengths(37, 1) + `{"kind":"answer","id":1,"sizes":[99]}` + "x", "longer than itself"},
		"a message that is cut":               {greeting + lengths(100, 0) + "{", "unexpected EOF"},
	} {
		t.Run(sentence, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				_, _ = io.WriteString(theirs, tc.said)
				_ = theirs.Close()
			}()
			_, err := gateway.New(t.Context(), ours, gateway.Options{})
			assert.ErrorIs(t, err, site.ErrUnreachable)
			assert.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("what a login shell prints is skipped", func(t *testing.T) {
		p := start(t)
		p.Reader = io.MultiReader(strings.NewReader("Maintenance on Monday\nno line end"), p.Reader)
		c := connect(t, p, gateway.Options{})
		_, err := c.List(t.Context(), "/")
		assert.NoError(t, err)
	})
}

const greeting = "\ngangline-gateway protocol 1\n"

func lengths(header, body uint32) string {
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, header), body))
}

func TestAQuestionThatIsTooLargeHarmsNoOther(t *testing.T) {
	c := connect(t, start(t), gateway.Options{})
	_, err := c.Find(t.Context(), strings.Repeat("x", 17<<20))
	assert.ErrorIs(t, err, site.ErrTooLarge)
	_, err = c.Run(t.Context(), site.Command{Argv: []string{"/bin/true"}, Stdin: make([]byte, 200<<20)})
	assert.ErrorIs(t, err, site.ErrTooLarge)
	_, err = c.List(t.Context(), "/")
	assert.NoError(t, err)
}

func TestManyCallsAtOnce(t *testing.T) {
	c := connect(t, start(t), gateway.Options{})
	dir := t.TempDir()
	failed := make(chan error)
	const many = 200
	for i := range many {
		go func() {
			path := filepath.Join(dir, string(rune('a'+i%26)))
			err := c.Write(t.Context(), path, bytes.Repeat([]byte{byte('a' + i%26)}, 1000+i), 0o600)
			if err == nil {
				_, err = c.Changed(t.Context(), []site.Watched{{Path: path}})
			}
			failed <- err
		}()
	}
	for range many {
		assert.NoError(t, <-failed)
	}
}
