package sshd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/sshclient"
)

type waiting struct{ ended chan struct{} }

func (w waiting) Run(ctx context.Context, _ Command) (int, error) {
	<-ctx.Done()
	close(w.ended)
	return 0, ctx.Err()
}

func serveTest(t *testing.T, r Runner, adjust func(*Server)) (addr string, keys mpi.Keys) {
	t.Helper()
	keys, err := mpi.DeriveKeys(bytes.Repeat([]byte{1}, mpi.MinSecret), t.Name())
	require.NoError(t, err)
	server, err := New(Config{HostKey: keys.HostPrivate, AuthorizedKeys: keys.ClientPublic}, r)
	require.NoError(t, err)
	adjust(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-served)
	})
	return listener.Addr().String(), keys
}

// dialTest is another client than ours.
func dialTest(t *testing.T, addr string, keys mpi.Keys) *ssh.Client {
	t.Helper()
	key, err := ssh.ParsePrivateKey(keys.ClientPrivate)
	require.NoError(t, err)
	client, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{
		User: "anyone", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

func TestACommandEndsWhenItsPeerDiesWithoutAWord(t *testing.T) {
	runner := waiting{ended: make(chan struct{})}
	addr, keys := serveTest(t, runner, func(s *Server) {
		s.keepAlive = sshclient.Pace{Every: 20 * time.Millisecond, Patience: 50 * time.Millisecond}
	})

	// Between the two stands a wire that can be cut without closing anything.
	wire, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer wire.Close()
	cut := make(chan struct{})
	go func() {
		near, err := wire.Accept()
		if !assert.NoError(t, err) {
			return
		}
		far, err := net.Dial("tcp", addr)
		if !assert.NoError(t, err) {
			return
		}
		t.Cleanup(func() { near.Close(); far.Close() })
		for to, from := range map[net.Conn]net.Conn{near: far, far: near} {
			go io.Copy(to, reader(func(p []byte) (int, error) { //nolint:errcheck // a wire
				n, err := from.Read(p)
				select {
				case <-cut:
					<-t.Context().Done()
				default:
				}
				return n, err
			}))
		}
	}()
	client, err := Dial(t.Context(), wire.Addr().String(), Credentials{HostPublicKey: keys.HostPublic, ClientKey: keys.ClientPrivate})
	require.NoError(t, err)
	defer client.Close()
	go client.Exec(t.Context(), ExecRequest{Argv: []string{"sleep"}}) //nolint:errcheck // never answers
	select {
	case <-runner.ended:
		t.Fatal("a peer that answers is not dead")
	case <-time.After(200 * time.Millisecond):
	}
	close(cut)
	<-runner.ended
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestSilentStrangersDoNotKeepTheGangOut(t *testing.T) {
	addr, keys := serveTest(t, waiting{}, func(*Server) {})
	for range maxUnauthenticated + 10 {
		stranger, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer stranger.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*hurriedTimeout)
	defer cancel()
	client, err := Dial(ctx, addr, Credentials{HostPublicKey: keys.HostPublic, ClientKey: keys.ClientPrivate})
	require.NoError(t, err)
	client.Close()
}

func TestSetEnv(t *testing.T) {
	tests := map[string]struct {
		name, value string
		want        bool
	}{
		"an ordinary variable":             {"LC_ALL", "C.UTF-8", true},
		"a launcher's":                     {"OMPI_COMM_WORLD_RANK", "3", true},
		"the client's devices":             {"CUDA_VISIBLE_DEVICES", "0", false},
		"an empty value":                   {"A", "", true},
		"lines in a value":                 {"A", "b\nc", true},
		"the loader's":                     {"LD_PRELOAD", "/tmp/x.so", false},
		"the loader's path":                {"LD_LIBRARY_PATH", "/tmp", false},
		"a shell's start":                  {"BASH_ENV", "/tmp/x", false},
		"a shell's function":               {"BASH_FUNC_ls%%", "() { :; }", false},
		"the pod's search path":            {"PATH", "/tmp", false},
		"where the remote shell has files": {"GANGLINE_DIR", "/tmp", false},
		"no name":                          {"", "x", false},
		"a name that smuggles a value":     {"A=LD_PRELOAD", "x", false},
		"a zero byte":                      {"A", "x\x00y", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := &session{}
			assert.Equal(t, test.want, n.setEnv(test.name, test.value))
			if test.want {
				assert.Equal(t, []string{test.name + "=" + test.value}, n.command.Env)
			} else {
				assert.Empty(t, n.command.Env)
			}
		})
	}
	t.Run("too much of it", func(t *testing.T) {
		n := &session{}
		assert.True(t, n.setEnv("A", string(make([]byte, 0, 1))))
		assert.False(t, n.setEnv("B", string(bytes.Repeat([]byte{'x'}, maxEnv))))
	})
	t.Run("after the start", func(t *testing.T) {
		n := &session{ended: make(chan struct{})}
		assert.False(t, n.setEnv("A", "b"))
	})
}

func TestLoopback(t *testing.T) {
	tests := map[string][]string{
		"localhost":       {"127.0.0.1", "::1"},
		"127.0.0.1":       {"127.0.0.1"},
		"127.8.9.10":      {"127.8.9.10"},
		"::1":             {"::1"},
		"10.0.0.1":        nil,
		"0.0.0.0":         nil,
		"::":              nil,
		"hpc1":            nil,
		"localhost.evil":  nil,
		"169.254.169.254": nil,
		"":                nil,
	}
	for host, want := range tests {
		assert.Equal(t, want, loopback(host), host)
	}
}

func TestForwardingOffTheNodeIsRefused(t *testing.T) {
	addr, keys := serveTest(t, waiting{}, func(*Server) {})
	client := dialTest(t, addr, keys)
	_, err := client.Dial("tcp", "192.0.2.1:22")
	assert.ErrorContains(t, err, "only ports of localhost and of the gang's hosts")
	_, err = client.Listen("tcp", "127.0.0.1:0")
	assert.Error(t, err, "no ports are opened for a client")
	_, _, err = client.OpenChannel("x11", nil)
	assert.Error(t, err)
}

func TestForwardingWithinTheGang(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer echo.Close()
	go func() {
		if conn, err := echo.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
	}()
	addr, keys := serveTest(t, waiting{}, func(s *Server) {
		s.peers = func(host string) []string {
			return map[string][]string{"pi-1": {"127.0.0.1"}}[host]
		}
	})
	client := dialTest(t, addr, keys)
	conn, err := client.Dial("tcp", net.JoinHostPort("pi-1", strconv.Itoa(echo.Addr().(*net.TCPAddr).Port)))
	require.NoError(t, err)
	heard, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(heard))
	_, err = client.Dial("tcp", "pi-2:22")
	assert.ErrorContains(t, err, "only ports of localhost and of the gang's hosts")
}

func TestAConnectionHasItsLimit(t *testing.T) {
	addr, keys := serveTest(t, waiting{}, func(*Server) {})
	client := dialTest(t, addr, keys)
	for range maxChannels {
		_, requests, err := client.OpenChannel("session", nil)
		require.NoError(t, err)
		go ssh.DiscardRequests(requests)
	}
	_, _, err := client.OpenChannel("session", nil)
	assert.ErrorContains(t, err, "open already")
	another := dialTest(t, addr, keys)
	_, requests, err := another.OpenChannel("session", nil)
	require.NoError(t, err, "it is one connection's alone")
	go ssh.DiscardRequests(requests)
}

func TestAuthorizedKeys(t *testing.T) {
	line := func(name string) string {
		keys, err := mpi.DeriveKeys(bytes.Repeat([]byte{1}, mpi.MinSecret), name)
		require.NoError(t, err)
		return string(keys.ClientPublic)
	}
	logger := slog.New(slog.DiscardHandler)
	tests := map[string]struct {
		text string
		keys int
	}{
		"one":                           {line("a"), 1},
		"several, comments, blank ones": {"# ours\n" + line("a") + "\n  " + line("b"), 2},
		"a line that cannot be read":    {"ssh-tuba AAAA\n" + line("a"), 1},
		"a key with options":            {`command="true" ` + line("a") + line("b"), 1},
		"none":                          {"# nobody\n", 0},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			keys, err := parseAuthorizedKeys([]byte(test.text), logger)
			if test.keys == 0 {
				assert.ErrorContains(t, err, "there is none")
				return
			}
			require.NoError(t, err)
			assert.Len(t, keys, test.keys)
			assert.Equal(t, []string{ssh.KeyAlgoED25519}, keys.algorithms())
		})
	}
}
