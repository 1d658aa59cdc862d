package daemon_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/agent/agenttest"
	"github.com/gangline/gangline/agent/alias"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd/daemon"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// TestMain makes this program what the agent is inside pods.
func TestMain(m *testing.M) {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	if program := alias.Find(os.Args); program != nil {
		os.Exit(program(context.Background(), os.Args))
	}
	os.Exit(m.Run())
}

// pod is the surroundings of an sshd on this machine.
type pod struct {
	*testing.T
	dir  string // of GANGLINE_DIR
	port string
	keys mpi.Keys
	env  []string
}

func newPod(t *testing.T, port string) *pod {
	t.Helper()
	keys, err := mpi.DeriveKeys(bytes.Repeat([]byte{1}, mpi.MinSecret), t.Name())
	require.NoError(t, err)
	p := &pod{T: t, dir: t.TempDir(), port: port, keys: keys}
	require.NoError(t, remoteshell.WriteFiles(p.dir, remoteshell.Files{
		Peers:     remoteshell.Peers{HostKey: string(keys.HostPublic), Hosts: []remoteshell.Peer{{Names: []string{"ds-node-0-0"}, Address: "127.0.0.1", Port: 1}}},
		ClientKey: keys.ClientPrivate, HostKey: keys.HostPrivate, SeenAs: p.dir,
	}))
	// Kubeflow's Secret: a private key called id_rsa, whatever it is.
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	public, err := ssh.NewPublicKey(key.Public())
	require.NoError(t, err)
	p.write("id_rsa", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	p.write("authorized_keys", ssh.MarshalAuthorizedKey(public))
	p.env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + p.dir, "POD=ds", remoteshell.Variable + "=" + p.dir,
		daemon.Variable + "=" + filepath.Join(p.dir, "authorized_keys"),
	}
	return p
}

func (p *pod) write(name string, data []byte) {
	p.Helper()
	require.NoError(p, os.WriteFile(filepath.Join(p.dir, name), data, 0o600))
}

// command is this program under a name.
func (p *pod) command(name string, args ...string) *exec.Cmd {
	p.Helper()
	self, err := os.Executable()
	require.NoError(p, err)
	cmd := exec.CommandContext(p.Context(), self, args...)
	cmd.Args[0], cmd.Env, cmd.Dir = name, p.env, "/"
	return cmd
}

// start runs sshd until the test ends, and waits until it listens.
func (p *pod) start(args ...string) (*exec.Cmd, *agenttest.Output) {
	p.Helper()
	cmd, log := p.command("/usr/sbin/sshd", args...), &agenttest.Output{}
	cmd.Stderr = log
	require.NoError(p, cmd.Start())
	p.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	p.says(log, "server listening")
	return cmd, log
}

func (p *pod) says(log *agenttest.Output, what string) {
	p.Helper()
	require.Eventually(p, func() bool { return strings.Contains(log.String(), what) }, 20*time.Second, 10*time.Millisecond, "waiting for %q", what)
}

// ssh runs OpenSSH's client as a launcher outside of the gang does, with the
// Secret's key.
func (p *pod) ssh(words ...string) (string, error) {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "ssh", append([]string{
		"-F", "none", "-i", filepath.Join(p.dir, "id_rsa"), "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-p", p.port, "mpiuser@127.0.0.1",
	}, words...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

func TestTheWorkersOfKubeflowsRuntimes(t *testing.T) {
	p := newPod(t, freePort(t))
	_, log := p.start("-De", "-f", "/home/mpiuser/.sshd_config", "-o", "ListenAddress=127.0.0.1:"+p.port)
	assert.Contains(t, log.String(), "there is no such configuration in the pod")
	out, err := p.ssh("echo $POD in $(pwd); cat >/dev/null; exit 3")
	assert.Equal(t, "ds in "+p.dir+"\n", out)
	assert.ErrorContains(t, err, "exit status 3")

	config := fmt.Sprintf("Host pod\nHostName 127.0.0.1\nPort %s\nIdentityFile %s/id_rsa\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n", p.port, p.dir)
	p.write("config", []byte(config))
	sftp := exec.CommandContext(t.Context(), "sftp", "-F", filepath.Join(p.dir, "config"), "-b", "-", "pod")
	sftp.Stdin = strings.NewReader("put " + filepath.Join(p.dir, "config") + " copy\nsymlink copy link\n")
	out2, err := sftp.CombinedOutput()
	require.NoError(t, err, string(out2))
	copied, err := os.ReadFile(filepath.Join(p.dir, "link"))
	require.NoError(t, err)
	assert.Equal(t, config, string(copied))
}

func TestItEndsAsSshdDoes(t *testing.T) {
	p := newPod(t, freePort(t))
	cmd, _ := p.start("-D", "-o", "ListenAddress=127.0.0.1:"+p.port)
	session := make(chan error, 1)
	go func() {
		_, err := p.ssh("sleep 1000")
		session <- err
	}()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "exit status 0")
	assert.Error(t, <-session, "its sessions end with it")
}

func TestItBecomesADaemon(t *testing.T) {
	p := newPod(t, freePort(t))
	out, err := p.command("sshd", "-o", "ListenAddress=127.0.0.1:"+p.port).CombinedOutput()
	require.NoError(t, err, string(out))
	pid, err := p.ssh("echo $PPID")
	require.NoError(t, err, "it listens when the first process has ended")
	t.Cleanup(func() { _ = exec.Command("kill", strings.TrimSpace(pid)).Run() })

	require.NoError(t, os.Remove(filepath.Join(p.dir, "authorized_keys")))
	p.env = append(p.env[:3:3], remoteshell.Variable+"=") // no gang, no keys: nobody could come in
	out, err = p.command("sshd").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "sshd: reading the SSH keys that are authorized: there is none")
}

func TestTwoPodsOfAGangThatShareAPort(t *testing.T) {
	first := newPod(t, freePort(t))
	first.start("-D", "-o", "ListenAddress=127.0.0.1:"+first.port)
	_, err := first.ssh("true")
	require.NoError(t, err)

	second, log := first.start("-D", "-o", "ListenAddress=127.0.0.1:"+first.port)
	first.says(log, "the port is taken on this node")
	refused := func() bool {
		_, err := first.ssh("true")
		return err != nil && strings.Contains(err.Error(), "shares its HPC node")
	}
	require.Eventually(t, refused, 20*time.Second, 50*time.Millisecond,
		"which of both is meant cannot be told")
	// The gang's own clients know the ports apart.
	gang := exec.CommandContext(t.Context(), "ssh", "-F", "none", "-i", filepath.Join(first.dir, "ssh-client-key"), "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-p", first.port, "127.0.0.1", "true")
	out, err := gang.CombinedOutput()
	require.NoError(t, err, string(out))

	require.NoError(t, second.Process.Signal(os.Interrupt))
	require.NoError(t, second.Wait())
	require.Eventually(t, func() bool { _, err := first.ssh("true"); return err == nil }, 20*time.Second, 50*time.Millisecond,
		"the other pod has ended")
}

func TestAPortOfAnotherGangIsLeftAlone(t *testing.T) {
	first := newPod(t, freePort(t))
	first.start("-D", "-o", "ListenAddress=127.0.0.1:"+first.port)
	var log *agenttest.Output
	t.Run("another gang", func(t *testing.T) {
		second := newPod(t, first.port)
		_, log = second.start("-D", "-o", "ListenAddress=127.0.0.1:"+first.port)
		second.says(log, "does not belong to this gang")
		_, err := second.ssh("true")
		assert.ErrorContains(t, err, "Permission denied", "whoever means the second is not let in by the first")
	})
	_, err := first.ssh("true")
	require.NoError(t, err)
}

func TestPasswordsAndStrangersAreRefused(t *testing.T) {
	p := newPod(t, freePort(t))
	p.start("-D", "-o", "ListenAddress=127.0.0.1:"+p.port)
	out, err := exec.CommandContext(t.Context(), "ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "PubkeyAuthentication=no", "-o", "BatchMode=yes", "-p", p.port, "127.0.0.1", "true").CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "Permission denied (publickey)")
}
