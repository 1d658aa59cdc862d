package sshdtest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi"
)

// Keys are the keys of a test's gang.
func Keys(t testing.TB) mpi.Keys {
	t.Helper()
	keys, err := mpi.DeriveKeys(bytes.Repeat([]byte{1}, mpi.MinSecret), t.Name())
	require.NoError(t, err)
	return keys
}

// Credentials are what a client of the gang has.
func Credentials(k mpi.Keys) sshd.Credentials {
	return sshd.Credentials{HostPublicKey: k.HostPublic, ClientKey: k.ClientPrivate}
}

// Start serves SSH on a free port of the loopback until the test ends.
func Start(t testing.TB, k mpi.Keys, r sshd.Runner) *net.TCPAddr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	Serve(t, k, r, listener)
	return listener.Addr().(*net.TCPAddr)
}

// Serve serves SSH on a listener until the test ends, and waits for it.
func Serve(t testing.TB, k mpi.Keys, r sshd.Runner, l net.Listener) {
	t.Helper()
	server, err := sshd.New(sshd.Config{
		HostKey:        k.HostPrivate,
		AuthorizedKeys: k.ClientPublic,
		Subsystems:     []string{sftp},
		Logger:         slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, r)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-served)
	})
}
