package login_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sitetest"
)

const patience = 30 * time.Second

// TestMain makes this program a gateway where it is told to be one.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "gateway" {
		if err := gateway.Connect(context.Background(), net.JoinHostPort(os.Args[3], os.Args[5]), os.Stdin, os.Stdout); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "gateway" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := gateway.Serve(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// world is a login node with two users.
type world struct {
	*testing.T
	dir        string
	node       *logintest.Node
	agent      string // this program
	one, other sitetest.Account
}

func newWorld(t *testing.T, sshdConfig ...string) *world {
	t.Helper()
	w := &world{T: t, dir: sitetest.PublicDir(t)}
	w.one, w.other = sitetest.Users(t)
	w.agent = sitetest.Program(t, w.dir)
	var err error
	w.node, err = logintest.Start(t.Context(), w.dir, io.Discard, sshdConfig...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, w.node.Stop()) })
	for _, user := range []sitetest.Account{w.one, w.other} {
		key, err := logintest.NewKey(w.key(user))
		require.NoError(t, err)
		require.NoError(t, w.node.Authorize(user.Name, logintest.Line(key)))
		user.OwnDir(t, w.dir, user.Name)
	}
	return w
}

func (w *world) key(user sitetest.Account) string { return filepath.Join(w.dir, "key."+user.Name) }

// agents is where a user's agent goes.
func (w *world) agents(user sitetest.Account) string {
	return filepath.Join(w.dir, user.Name, "agents")
}

func (w *world) config(user sitetest.Account) login.Config {
	return login.Config{
		Address: w.node.Address, User: user.Name, KnownHosts: w.node.KnownHosts(), KeyFile: w.key(user),
		Agents: map[string]string{runtime.GOARCH: w.agent}, AgentDir: w.agents(user),
		Log: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (w *world) login(c login.Config) *login.Login {
	w.Helper()
	l, err := login.New(c)
	require.NoError(w, err)
	w.Cleanup(func() { _ = l.Close() })
	return l
}

func (w *world) client(l *login.Login, o gateway.Options) *gateway.Client {
	w.Helper()
	c, err := w.try(l, o)
	require.NoError(w, err)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) try(l *login.Login, o gateway.Options) (*gateway.Client, error) {
	stream, err := l.Start(w.Context())
	if err != nil {
		return nil, err
	}
	o.Dialer = l
	return gateway.New(w.Context(), stream, o)
}

func TestASiteByLogin(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.login(w.config(w.one)), gateway.Options{})
	sitetest.Run(t, c, w.one.OwnDir(t, w.dir, "own"))
}

func TestTwoUsersByLogin(t *testing.T) {
	w := newWorld(t)
	const everybody = 0o755
	for i, user := range []sitetest.Account{w.one, w.other} {
		public := user.OwnDir(t, w.dir, "public-"+user.Name)
		require.NoError(t, os.Chmod(public, everybody))
		c := w.client(w.login(w.config(user)), gateway.Options{})
		sitetest.Private(t, c, public, user, []sitetest.Account{w.other, w.one}[i])
	}
}

func TestTheAgentIsPutThereOncePerVersion(t *testing.T) {
	w := newWorld(t)
	text, err := os.ReadFile(w.agent)
	require.NoError(t, err)
	file := filepath.Join(w.agents(w.one), fmt.Sprintf("agent-%x", sha256.Sum256(text)))
	l := w.login(w.config(w.one))
	path, err := l.Agent(t.Context())
	require.NoError(t, err)
	assert.Equal(t, file, path)
	first, err := os.Stat(file)
	require.NoError(t, err)
	const program = 0o700
	assert.Equal(t, fs.FileMode(program), first.Mode())
	assert.False(t, w.other.Reads(t, file))
	c := w.client(l, gateway.Options{})
	r, err := c.Run(t.Context(), site.Command{Argv: []string{"/bin/sh", "-c", "readlink /proc/$PPID/exe"}})
	require.NoError(t, err)
	assert.Equal(t, file+"\n", string(r.Stdout))
	w.client(w.login(w.config(w.one)), gateway.Options{})
	second, err := os.Stat(file)
	require.NoError(t, err)
	assert.True(t, os.SameFile(first, second), "it is there already")

	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, text[:len(text)/2], program))
	require.NoError(t, os.Chown(file, w.one.UID, w.one.GID))
	w.client(w.login(w.config(w.one)), gateway.Options{})
	third, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, string(text) == string(third), "half of one is replaced")
	entries, err := os.ReadDir(w.agents(w.one))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left beside it")

	t.Run("one that has gone is brought again", func(t *testing.T) {
		require.NoError(t, os.Remove(file))
		_, err := w.try(l, gateway.Options{}) // on a connection that has seen it
		assert.ErrorIs(t, err, site.ErrUnreachable)
		assert.ErrorContains(t, err, "has gone from the login node")
		w.client(l, gateway.Options{})
	})
}

func TestWhatALoginShellPrintsDoesNoHarm(t *testing.T) {
	w := newWorld(t)
	// bash reads this when sshd runs it.
	profile := filepath.Join(w.other.Home, ".bashrc")
	const everybody = 0o644
	before, err := os.ReadFile(profile)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(profile, before, everybody)) })
	require.NoError(t, os.WriteFile(profile, []byte("echo 'Welcome to the cluster'; echo 'No quota' >&2; printf 'no line end'\n"), everybody))
	c := w.client(w.login(w.config(w.other)), gateway.Options{})
	_, err = c.List(t.Context(), "/")
	require.NoError(t, err)
}

func TestThroughTheLoginNode(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	address := listener.Addr().String()
	w := newWorld(t)
	l := w.login(w.config(w.one))
	_, err = l.DialContext(t.Context(), "tcp", address)
	assert.ErrorIs(t, err, site.ErrUnreachable, "it makes no connection by itself")
	c := w.client(l, gateway.Options{})
	throughIt(t, c, address)

	// By the agent, where sshd forbids it.
	forbids := newWorld(t, "AllowTcpForwarding no")
	l = forbids.login(forbids.config(forbids.one))
	c = forbids.client(l, gateway.Options{})
	throughIt(t, c, address)
	_, err = c.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	assert.ErrorContains(t, err, "AllowTcpForwarding")
	_, err = c.DialContext(t.Context(), "tcp", "$(id):1")
	assert.ErrorContains(t, err, "is no address")
}

func throughIt(t *testing.T, d site.Dialer, address string) {
	t.Helper()
	conn, err := d.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	assert.Equal(t, address, conn.RemoteAddr().String())
	_, err = io.WriteString(conn, "there and back")
	require.NoError(t, err)
	text := make([]byte, 14)
	_, err = io.ReadFull(conn, text)
	require.NoError(t, err)
	assert.Equal(t, "there and back", string(text))
	require.NoError(t, conn.Close())

	_, err = d.DialContext(t.Context(), "tcp", "127.0.0.1:1")
	assert.ErrorContains(t, err, "127.0.0.1:1")
	assert.ErrorContains(t, err, "refused")
}

func TestACutWire(t *testing.T) {
	w := newWorld(t)
	wire, err := logintest.NewWire(w.node.Address)
	require.NoError(t, err)
	t.Cleanup(wire.Close)
	config := w.config(w.one)
	config.Address = wire.Address
	config.Pace = sshclient.Pace{Every: 100 * time.Millisecond, Patience: time.Second}
	config.ConnectTimeout = 2 * time.Second
	l := w.login(config)
	k := gateway.Keep(l.Start, gateway.KeepOptions{
		Options: gateway.Options{
			Lock: filepath.Join(w.dir, w.one.Name, "lock"), Dialer: l,
			Pace: gateway.Pace{Every: 100 * time.Millisecond, Patience: time.Second},
		},
		First: 50 * time.Millisecond, Most: 200 * time.Millisecond, Log: config.Log,
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	before := sitetest.Gateway(t, k)
	assert.Equal(t, 1, wire.Open())

	wire.Cut()
	_, err = k.List(t.Context(), "/")
	assert.ErrorIs(t, err, site.ErrUnreachable)
	assert.Eventually(t, func() bool { return !sitetest.Running(before) }, patience, 10*time.Millisecond,
		"the gateway ends although its stream does not, and so the lock is free")
	_, err = k.Run(t.Context(), site.Command{Argv: []string{"/bin/true"}})
	assert.ErrorIs(t, err, site.ErrUnreachable)
	wire.Mend()
	require.Eventually(t, func() bool { return k.Ready(t.Context()) == nil }, patience, 10*time.Millisecond)
	after := sitetest.Gateway(t, k)
	assert.NotEqual(t, before, after)
	assert.Eventually(t, func() bool { return wire.Open() == 1 }, patience, 10*time.Millisecond, "the first is given up")

	require.NoError(t, k.Close())
	assert.Eventually(t, func() bool { return !sitetest.Running(after) }, patience, 10*time.Millisecond, "nothing is left there")
}

func TestALoginNodeThatIsRestarted(t *testing.T) {
	w := newWorld(t)
	l := w.login(w.config(w.one))
	k := gateway.Keep(l.Start, gateway.KeepOptions{
		Options: gateway.Options{Dialer: l}, First: 50 * time.Millisecond, Most: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	require.NoError(t, k.Ready(t.Context()))
	require.NoError(t, w.node.Stop())
	require.NoError(t, l.Close()) // the connection would have outlived its listener
	require.Eventually(t, func() bool {
		err := k.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}, patience, 10*time.Millisecond)
	require.NoError(t, w.node.Restart(t.Context(), io.Discard))
	require.Eventually(t, func() bool { return k.Ready(t.Context()) == nil }, patience, 10*time.Millisecond)
}

func TestCertificates(t *testing.T) {
	ca := newAuthority(t)
	dir := sitetest.PublicDir(t)
	trusted := filepath.Join(dir, "user_ca.pub")
	const everybody = 0o644
	require.NoError(t, os.WriteFile(trusted, []byte(logintest.Line(ca.PublicKey())+"\n"), everybody))
	hostCert := filepath.Join(dir, "host_key-cert.pub")
	w := newWorld(t, "TrustedUserCAKeys "+trusted, "AuthorizedKeysFile none", "HostCertificate "+hostCert)
	// The certificate is read when a connection comes, the file itself at the start.
	ca.sign(t, w.node.HostKey, ssh.HostCert, "127.0.0.1", time.Now().Add(time.Hour), hostCert)
	require.NoError(t, w.node.Stop())
	require.NoError(t, w.node.Restart(t.Context(), io.Discard))

	config := w.config(w.one)
	config.KnownHosts = "@cert-authority * " + logintest.Line(ca.PublicKey())
	_, err := w.try(w.login(config), gateway.Options{})
	assert.ErrorContains(t, err, "does not let "+w.one.Name+" in", "the key alone does not do")

	key := publicKey(t, config.KeyFile)
	config.CertificateFile = config.KeyFile + "-cert.pub"
	ca.sign(t, key, ssh.UserCert, w.one.Name, time.Now().Add(time.Hour), config.CertificateFile)
	w.client(w.login(config), gateway.Options{})

	ca.sign(t, key, ssh.UserCert, w.one.Name, time.Now().Add(-time.Hour), config.CertificateFile)
	_, err = w.try(w.login(config), gateway.Options{})
	assert.ErrorContains(t, err, "has ended at")
	ca.sign(t, ca.PublicKey(), ssh.UserCert, w.one.Name, time.Now().Add(time.Hour), config.CertificateFile)
	_, err = w.try(w.login(config), gateway.Options{})
	assert.ErrorContains(t, err, "is not of the key in")
	ca.sign(t, key, ssh.UserCert, w.one.Name, time.Now().Add(time.Hour), config.CertificateFile)
	config.KnownHosts = "@cert-authority * " + logintest.Line(key)
	_, err = w.try(w.login(config), gateway.Options{})
	assert.ErrorAs(t, err, new(*login.HostKeyError))
}

type authority struct{ ssh.Signer }

func newAuthority(t *testing.T) authority {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca")
	_, err := logintest.NewKey(file)
	require.NoError(t, err)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(text)
	require.NoError(t, err)
	return authority{signer}
}

func (a authority) sign(t *testing.T, key ssh.PublicKey, kind uint32, principal string, until time.Time, file string) {
	t.Helper()
	cert := &ssh.Certificate{
		Key: key, CertType: kind, KeyId: "test", ValidPrincipals: []string{principal},
		ValidAfter: 0, ValidBefore: uint64(until.Unix()),
	}
	require.NoError(t, cert.SignCert(rand.Reader, a))
	const everybody = 0o644
	require.NoError(t, os.WriteFile(file, []byte(logintest.Line(cert)+"\n"), everybody))
}

func publicKey(t *testing.T, file string) ssh.PublicKey {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(text)
	require.NoError(t, err)
	return signer.PublicKey()
}
