package sshd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/sshclient"
)

var shell = sshdtest.Shell{Env: []string{"PATH=/usr/bin:/bin", "POD=pi-0"}}

// runnerFunc lets a test be the Runner.
type runnerFunc func(context.Context, sshd.Command) (int, error)

func (f runnerFunc) Run(ctx context.Context, c sshd.Command) (int, error) { return f(ctx, c) }

// connect starts a service and a client of it.
func connect(t *testing.T, r sshd.Runner) *sshd.Client {
	t.Helper()
	keys := sshdtest.Keys(t)
	addr := sshdtest.Start(t, keys, r)
	client, err := sshd.Dial(t.Context(), addr.String(), sshdtest.Credentials(keys))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func TestExec(t *testing.T) {
	client := connect(t, shell)
	tests := map[string]struct {
		argv   []string
		stdin  string
		status int
		stdout string
		stderr string
	}{
		"arguments are not a shell's":            {argv: []string{"echo", "$POD; a  b", "*"}, stdout: "$POD; a  b *\n"},
		"the pod's environment is there":         {argv: []string{"sh", "-c", "echo $POD"}, stdout: "pi-0\n"},
		"both outputs stay apart":                {argv: []string{"sh", "-c", "echo out; echo err >&2"}, stdout: "out\n", stderr: "err\n"},
		"the exit status comes back":             {argv: []string{"sh", "-c", "exit 42"}, status: 42},
		"a signal's number comes back as 128+n":  {argv: []string{"sh", "-c", "kill -9 $$"}, status: 137},
		"standard input arrives and ends":        {argv: []string{"wc", "-c"}, stdin: strings.Repeat("x", 1<<20), stdout: "1048576\n"},
		"a command need not read its input":      {argv: []string{"true"}, stdin: strings.Repeat("x", 8<<20)},
		"large outputs arrive whole, both pipes": {argv: []string{"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' o; head -c 3000000 /dev/zero | tr '\\0' e >&2"}, stdout: strings.Repeat("o", 3000000), stderr: strings.Repeat("e", 3000000)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status, err := client.Exec(t.Context(), sshd.ExecRequest{
				Argv: test.argv, Stdin: strings.NewReader(test.stdin), Stdout: &stdout, Stderr: &stderr,
			})
			require.NoError(t, err)
			assert.Equal(t, test.status, status)
			assert.True(t, test.stdout == stdout.String(), "stdout: %.80q", stdout.String())
			assert.True(t, test.stderr == stderr.String(), "stderr: %.80q", stderr.String())
		})
	}
}

func TestExecNamesTheContainer(t *testing.T) {
	var got sshd.Command
	client := connect(t, runnerFunc(func(_ context.Context, c sshd.Command) (int, error) {
		got = c
		return 0, nil
	}))
	_, err := client.Exec(t.Context(), sshd.ExecRequest{Container: "side", Argv: []string{"a", "b c"}})
	require.NoError(t, err)
	assert.Equal(t, "side", got.Container)
	assert.Equal(t, []string{"a", "b c"}, got.Argv)
	assert.Empty(t, got.Line)
}

func TestExecTellsWhyACommandWasNotStarted(t *testing.T) {
	client := connect(t, shell)
	var stderr bytes.Buffer
	_, err := client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"no-such-program"}, Stderr: &stderr})
	assert.ErrorContains(t, err, "no-such-program")
	assert.Empty(t, stderr.String(), "the error is the caller's to show")

	_, err = client.Exec(t.Context(), sshd.ExecRequest{})
	assert.ErrorContains(t, err, "no command")
}

func TestExecEndsThoughItsInputNeverDoes(t *testing.T) {
	client := connect(t, shell)
	stdin, _ := io.Pipe()
	status, err := client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"sh", "-c", "exit 3"}, Stdin: stdin})
	require.NoError(t, err)
	assert.Equal(t, 3, status)
}

func TestExecOnATerminalFollowsItsSize(t *testing.T) {
	client := connect(t, shell)
	resize := make(chan sshd.Size, 1)
	stdin, typed := io.Pipe()
	output, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		status, err := client.Exec(t.Context(), sshd.ExecRequest{
			Argv: []string{"sh", "-c", "trap 'stty size; exit 5' WINCH; echo $TERM; stty size; while :; do sleep 0.05; done"},
			PTY:  &sshd.PTY{Term: "vt100", Size: sshd.Size{Columns: 80, Rows: 24}}, Stdin: stdin, Stdout: stdout, Resize: resize,
		})
		assert.NoError(t, err)
		ended <- status
	}()
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		_, err := io.ReadFull(output, got)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	expect("vt100\r\n24 80\r\n")
	resize <- sshd.Size{Columns: 132, Rows: 43}
	expect("43 132\r\n")
	assert.Equal(t, 5, <-ended)
	typed.Close()
}

func TestACommandEndsWithItsClient(t *testing.T) {
	endings := map[string]func(cancel context.CancelFunc, client *sshd.Client){
		"when the context ends":    func(cancel context.CancelFunc, _ *sshd.Client) { cancel() },
		"when the connection ends": func(_ context.CancelFunc, client *sshd.Client) { client.Close() },
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			started, ended := make(chan struct{}), make(chan struct{})
			client := connect(t, runnerFunc(func(ctx context.Context, _ sshd.Command) (int, error) {
				close(started)
				<-ctx.Done()
				close(ended)
				return 0, ctx.Err()
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-started
				end(cancel, client)
			}()
			_, err := client.Exec(ctx, sshd.ExecRequest{Argv: []string{"sleep"}})
			assert.Error(t, err)
			<-ended
		})
	}
}

func TestTheServiceEndsItsCommandsWhenItStops(t *testing.T) {
	keys := sshdtest.Keys(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	started := make(chan struct{})
	server, err := sshd.New(sshd.Config{HostKey: keys.HostPrivate, AuthorizedKeys: keys.ClientPublic},
		runnerFunc(func(ctx context.Context, c sshd.Command) (int, error) {
			close(started)
			return shell.Run(ctx, c)
		}))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- server.Serve(ctx, listener) }()

	client, err := sshd.Dial(t.Context(), listener.Addr().String(), sshdtest.Credentials(keys))
	require.NoError(t, err)
	defer client.Close()
	go func() {
		<-started
		cancel()
	}()
	_, err = client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{"sleep", "1000"}})
	assert.ErrorIs(t, err, sshclient.ErrInterrupted)
	assert.NoError(t, <-served)
}

func TestOnlyTheGangsKeysWork(t *testing.T) {
	keys := sshdtest.Keys(t)
	addr := sshdtest.Start(t, keys, shell).String()
	others, err := mpi.DeriveKeys(bytes.Repeat([]byte{9}, mpi.MinSecret), "other")
	require.NoError(t, err)
	tests := map[string]struct {
		credentials sshd.Credentials
		says        string
	}{
		"a foreign client key":  {sshd.Credentials{HostPublicKey: keys.HostPublic, ClientKey: others.ClientPrivate}, "unable to authenticate"},
		"the host key":          {sshd.Credentials{HostPublicKey: keys.HostPublic, ClientKey: keys.HostPrivate}, "unable to authenticate"},
		"another service's key": {sshd.Credentials{HostPublicKey: others.HostPublic, ClientKey: keys.ClientPrivate}, "host key mismatch"},
		"no key at all":         {sshd.Credentials{HostPublicKey: keys.HostPublic}, "client key"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := sshd.Dial(t.Context(), addr, test.credentials)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestNewRefusesBrokenKeys(t *testing.T) {
	keys := sshdtest.Keys(t)
	_, err := sshd.New(sshd.Config{HostKey: []byte("x"), AuthorizedKeys: keys.ClientPublic}, shell)
	assert.ErrorContains(t, err, "host key")
	_, err = sshd.New(sshd.Config{HostKey: keys.HostPrivate, AuthorizedKeys: []byte("x")}, shell)
	assert.ErrorContains(t, err, "authorized")
}

func TestHundredsOfSessionsAtOnce(t *testing.T) {
	const connections, sessions = 20, 25
	var all sync.WaitGroup
	keys := sshdtest.Keys(t)
	// All commands are held until all run: they are truly concurrent.
	var running sync.WaitGroup
	running.Add(connections * sessions)
	addr := sshdtest.Start(t, keys, runnerFunc(func(_ context.Context, c sshd.Command) (int, error) {
		running.Done()
		running.Wait()
		_, err := io.WriteString(c.Stdout, c.Argv[0])
		return 0, err
	})).String()
	for i := range connections {
		all.Go(func() {
			client, err := sshd.Dial(t.Context(), addr, sshdtest.Credentials(keys))
			if !assert.NoError(t, err) {
				return
			}
			defer client.Close()
			var mine sync.WaitGroup
			for k := range sessions {
				mine.Go(func() {
					want := fmt.Sprint(i, " ", k)
					var stdout bytes.Buffer
					_, err := client.Exec(t.Context(), sshd.ExecRequest{Argv: []string{want}, Stdout: &stdout})
					assert.NoError(t, err)
					assert.Equal(t, want, stdout.String())
				})
			}
			mine.Wait()
		})
	}
	all.Wait()
}

func TestForwardReachesAPortAndPassesOnTheEnds(t *testing.T) {
	client := connect(t, shell)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		heard, err := io.ReadAll(conn) // the client's half has to end first
		assert.NoError(t, err)
		_, err = conn.Write(bytes.ToUpper(heard))
		assert.NoError(t, err)
	}()
	stream, err := client.Forward(t.Context(), listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	_, err = io.WriteString(stream, "hello")
	require.NoError(t, err)
	require.NoError(t, stream.(interface{ CloseWrite() error }).CloseWrite())
	heard, err := io.ReadAll(stream)
	require.NoError(t, err)
	assert.Equal(t, "HELLO", string(heard))
	stream.Close()
}

func TestForwardHangsUpWhenTheClientDoes(t *testing.T) {
	client := connect(t, shell)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	stream, err := client.Forward(t.Context(), listener.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, stream.Close())
	_, err = io.ReadAll(conn) // this end never closes, and is closed all the same
	assert.NoError(t, err)
}

func TestForwardToAClosedPortFails(t *testing.T) {
	client := connect(t, shell)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	_, err = client.Forward(t.Context(), port)
	assert.ErrorContains(t, err, "refused")
}

func TestDialIsBoundedByItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says a word
	require.NoError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = sshd.Dial(ctx, listener.Addr().String(), sshdtest.Credentials(sshdtest.Keys(t)))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
