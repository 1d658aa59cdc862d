package logintest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshd is OpenSSH's server.
const sshd = "/usr/sbin/sshd"

// Node is a login node.
type Node struct {
	// Address is where its sshd listens.
	Address string
	// HostKey proves it; HostKeyFile holds its private half.
	HostKey     ssh.PublicKey
	HostKeyFile string

	dir     string
	config  []string
	cmd     *exec.Cmd
	stopped chan struct{}
}

// Start starts a login node with its files in dir, which all users must be able to
// look into. It needs root, as every sshd that lets in more than one user. config are
// further lines for its sshd_config.
func Start(ctx context.Context, dir string, log io.Writer, config ...string) (*Node, error) {
	if _, err := os.Stat(sshd); err != nil {
		return nil, fmt.Errorf("looking for OpenSSH's server: %w (apt-get install openssh-server)", err)
	}
	const everybody = 0o755
	if err := os.MkdirAll("/run/sshd", everybody); err != nil { // where it shuts itself in
		return nil, err
	}
	n := &Node{dir: dir, HostKeyFile: filepath.Join(dir, "host_key"), config: slices.Clip(config)}
	var err error
	if n.HostKey, err = NewKey(n.HostKeyFile); err != nil {
		return nil, err
	}
	if n.Address, err = freeAddress(); err != nil {
		return nil, err
	}
	if err := n.Restart(ctx, log); err != nil {
		return nil, err
	}
	return n, nil
}

// Restart starts sshd, which was stopped.
func (n *Node) Restart(ctx context.Context, log io.Writer) error {
	_, port, err := net.SplitHostPort(n.Address)
	if err != nil {
		return err
	}
	lines := append(n.config, // the first word on a matter counts
		"Port "+port, "ListenAddress 127.0.0.1", "HostKey "+n.HostKeyFile,
		"AuthorizedKeysFile "+n.dir+"/authorized_keys.%u",
		"PidFile none", "UsePAM no", "StrictModes no", "UseDNS no", "PrintMotd no", "PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
	)
	file := filepath.Join(n.dir, "sshd_config")
	const everybody = 0o644
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), everybody); err != nil {
		return err
	}
	n.cmd = exec.Command(sshd, "-D", "-e", "-f", file)
	n.cmd.Stdout, n.cmd.Stderr, n.cmd.WaitDelay = log, log, time.Second
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("starting sshd: %w", err)
	}
	n.stopped = make(chan struct{})
	go func() { _ = n.cmd.Wait(); close(n.stopped) }()
	return n.waitListening(ctx)
}

func (n *Node) waitListening(ctx context.Context) error {
	const within, every = 20 * time.Second, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", n.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(every):
		case <-n.stopped:
			return errors.New("sshd has ended at once")
		case <-ctx.Done():
			return fmt.Errorf("waiting for sshd: %w", err)
		}
	}
}

// Stop ends sshd. Connections that are open live on.
func (n *Node) Stop() error {
	err := n.cmd.Process.Kill()
	<-n.stopped
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Authorize lets a user in who has one of these keys: lines of an authorized_keys
// file.
func (n *Node) Authorize(user string, lines ...string) error {
	const everybody = 0o644
	return os.WriteFile(filepath.Join(n.dir, "authorized_keys."+user), []byte(strings.Join(lines, "\n")+"\n"), everybody)
}

// KnownHosts is the node's line of a known_hosts file.
func (n *Node) KnownHosts() string {
	host, port, _ := net.SplitHostPort(n.Address)
	return fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(n.HostKey))
}

// NewKey makes a key pair, the private half in a file, which only this user reads.
func NewKey(file string) (ssh.PublicKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	const ownerOnly = 0o600
	if err := os.WriteFile(file, pem.EncodeToMemory(block), ownerOnly); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(private.Public())
}

// Line is a public key as a line of an authorized_keys file.
func Line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // it only showed the number
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), nil
}
