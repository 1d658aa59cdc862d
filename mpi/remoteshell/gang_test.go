package remoteshell_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// TestMain makes the test's own binary the remote shell where it is called ssh.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ssh" {
		os.Exit(remoteshell.Main(context.Background(), os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// gang is a set of SSH services on this machine that pose as pods, and the remote
// shell of each pod.
type gang struct {
	keys  mpi.Keys
	dir   string // GANGLINE_DIR
	ssh   string // the remote shell
	peers remoteshell.Peers
	env   []string // the environment in the pods
}

// newGang starts a service for each of the names.
func newGang(t *testing.T, names ...string) *gang {
	t.Helper()
	root := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	bin := filepath.Join(root, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	g := &gang{keys: sshdtest.Keys(t), dir: filepath.Join(root, "dir"), ssh: filepath.Join(bin, "ssh")}
	require.NoError(t, os.Symlink(self, g.ssh))
	g.peers.HostKey = string(g.keys.HostPublic)
	g.env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + root, remoteshell.Variable + "=" + g.dir}
	for _, name := range names {
		addr := sshdtest.Start(t, g.keys, sshdtest.Shell{Env: append(g.env[:len(g.env):len(g.env)], "POD="+name), Dir: root})
		g.peers.Hosts = append(g.peers.Hosts, remoteshell.Peer{
			Names: []string{name, name + ".pi"}, Address: addr.IP.String(), Port: addr.Port,
		})
	}
	g.write(t)
	return g
}

func (g *gang) write(t *testing.T) {
	t.Helper()
	require.NoError(t, remoteshell.WriteFiles(g.dir, remoteshell.Files{Peers: g.peers, ClientKey: g.keys.ClientPrivate, SeenAs: g.dir}))
}

// result is how a program ended.
type result struct {
	status         int
	stdout, stderr string
}

// command prepares a program in the environment of a pod that is no peer.
func (g *gang) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = g.env
	return cmd
}

// run runs the remote shell.
func (g *gang) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := g.command(t, g.ssh, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return finish(t, cmd)
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
