package sshd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi"
)

// openSSH is the real client, set up to open a service.
type openSSH struct {
	dir, config string
	addr        *net.TCPAddr
}

func newOpenSSH(t *testing.T, r sshd.Runner) openSSH {
	t.Helper()
	keys := sshdtest.Keys(t)
	addr := sshdtest.Start(t, keys, r)
	dir, err := os.MkdirTemp("", "ssh") // short: it holds the path of a socket
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	o := openSSH{dir: dir, config: filepath.Join(dir, "config"), addr: addr}
	o.write(t, "key", string(keys.ClientPrivate))
	o.write(t, "known_hosts", fmt.Sprintf("[%s]:%d %s", addr.IP, addr.Port, keys.HostPublic))
	o.write(t, "config", fmt.Sprintf(`Host pod
  HostName %s
  Port %d
  User anyone
  IdentityFile %[3]s/key
  IdentitiesOnly yes
  UserKnownHostsFile %[3]s/known_hosts
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
`, addr.IP, addr.Port, dir))
	return o
}

func (o openSSH) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o600))
}

func (o openSSH) command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, append([]string{"-F", o.config}, args...)...)
}

type result struct {
	status         int
	stdout, stderr string
}

func run(t *testing.T, cmd *exec.Cmd, stdin string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestOpenSSH(t *testing.T) {
	o := newOpenSSH(t, shell)
	big := strings.Repeat("0123456789", 300_000)
	tests := map[string]struct {
		args  []string
		stdin string
		want  result
	}{
		"a command line is a shell's":         {[]string{"pod", "echo $POD; echo a  b"}, "", result{0, "pi-0\na b\n", ""}},
		"the exit status":                     {[]string{"pod", "exit 42"}, "", result{42, "", ""}},
		"a signal's exit status is a shell's": {[]string{"pod", "kill -9 $$"}, "", result{137, "", ""}},
		"both outputs stay apart":             {[]string{"pod", "echo o; echo e >&2"}, "", result{0, "o\n", "e\n"}},
		"a pipe through it":                   {[]string{"pod", "cat"}, big, result{0, big, ""}},
		"input that is not read":              {[]string{"pod", "exit 3"}, big, result{3, "", ""}},
		"no input":                            {[]string{"-n", "pod", "wc -c"}, "x", result{0, "0\n", ""}},
		"a login shell":                       {[]string{"-T", "pod"}, "echo $POD\nexit 4\n", result{4, "pi-0\n", ""}},
		"a terminal":                          {[]string{"-tt", "pod", "test -t 0 && stty size"}, "", result{0, "0 0\r\n", ""}},
		"variables":                           {[]string{"-o", "SetEnv=A=b LD_PRELOAD=x", "pod", "echo $A$LD_PRELOAD"}, "", result{0, "b\n", ""}},
		"an unknown user name":                {[]string{"-l", "root", "pod", "true"}, "", result{}},
		"compression asked for":               {[]string{"-C", "pod", "echo c"}, "", result{0, "c\n", ""}},
		"agent and X11 forwarding asked for":  {[]string{"-A", "pod", "echo ${SSH_AUTH_SOCK-none}"}, "", result{0, "none\n", ""}},
		"a command that can't be found":       {[]string{"pod", "no-such-program"}, "", result{127, "", "/bin/sh: 1: no-such-program: not found\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t, o.command(t, "ssh", test.args...), test.stdin)
			assert.True(t, test.want == got, "status %d, stdout %.80q, stderr %.200q", got.status, got.stdout, got.stderr)
		})
	}
}

func TestOpenSSHIsToldWhyACommandWasNotStarted(t *testing.T) {
	o := newOpenSSH(t, runnerFunc(func(context.Context, sshd.Command) (int, error) {
		return 0, fmt.Errorf("the pod has ended")
	}))
	assert.Equal(t, result{255, "", "gangline: the pod has ended\n"}, run(t, o.command(t, "ssh", "pod", "true"), ""))
}

func TestOpenSSHWithAnotherKeyStaysOut(t *testing.T) {
	o := newOpenSSH(t, shell)
	others, err := mpi.DeriveKeys(bytes.Repeat([]byte{9}, mpi.MinSecret), "other")
	require.NoError(t, err)
	o.write(t, "key", string(others.ClientPrivate))
	got := run(t, o.command(t, "ssh", "pod", "true"), "")
	assert.Equal(t, 255, got.status)
	assert.Contains(t, got.stderr, "Permission denied (publickey)")
}

func TestOpenSSHSharesAConnection(t *testing.T) {
	o := newOpenSSH(t, shell)
	control := []string{"-o", "ControlPath=" + o.dir + "/mux"}
	master := o.command(t, "ssh", append(control, "-M", "-N", "pod")...)
	require.NoError(t, master.Start())
	require.Eventually(t, func() bool {
		return run(t, o.command(t, "ssh", append(control, "-O", "check", "pod")...), "").status == 0
	}, 20*time.Second, 20*time.Millisecond)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			got := run(t, o.command(t, "ssh", append(control, "pod", fmt.Sprint("exit ", i))...), "")
			assert.Equal(t, result{i, "", ""}, got)
		})
	}
	all.Wait()
	assert.Zero(t, run(t, o.command(t, "ssh", append(control, "-O", "exit", "pod")...), "").status)
	_ = master.Wait()
}

func TestCopies(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 200_000)
	for name, flags := range map[string][]string{
		"by SFTP, as scp does since OpenSSH 9": {"-s"},
		"by the old protocol":                  {"-O"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOpenSSH(t, shell)
			o.write(t, "from", string(data))
			there, back := filepath.Join(o.dir, "there"), filepath.Join(o.dir, "back")
			scp := func(args ...string) result { return run(t, o.command(t, "scp", append(flags, args...)...), "") }
			assert.Equal(t, result{}, scp("-p", filepath.Join(o.dir, "from"), "pod:"+there))
			assert.Equal(t, result{}, scp("-r", "pod:"+there, back))
			copied, err := os.ReadFile(back)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(data, copied))
			got := scp("pod:"+filepath.Join(o.dir, "nowhere"), back)
			assert.NotZero(t, got.status)
			assert.Contains(t, got.stderr, "No such file or directory")
		})
	}
}

func TestSFTP(t *testing.T) {
	o := newOpenSSH(t, shell)
	o.write(t, "from", "some text")
	got := run(t, o.command(t, "sftp", "-b", "-", "pod"), strings.Join([]string{
		"cd " + t.TempDir(), "mkdir sub", "put " + filepath.Join(o.dir, "from") + " sub/a", "rename sub/a sub/b", "symlink b sub/link", "ln sub/b sub/hard",
		"chmod 600 sub/b", "ls -1 sub", "get sub/link " + filepath.Join(o.dir, "back"), "df", "rm sub/b", "rm sub/link", "rm sub/hard", "rmdir sub",
	}, "\n"))
	require.Zero(t, got.status, got.stderr)
	assert.Contains(t, got.stdout, "sub/b\nsub/hard\nsub/link\n")
	back, err := os.ReadFile(filepath.Join(o.dir, "back"))
	require.NoError(t, err)
	assert.Equal(t, "some text", string(back))
}

func TestAnUnknownSubsystemIsRefused(t *testing.T) {
	o := newOpenSSH(t, shell)
	got := run(t, o.command(t, "ssh", "-s", "pod", "tuba"), "")
	assert.Equal(t, 255, got.status)
	assert.Contains(t, got.stderr, "subsystem request failed", "not left hanging")
}

func TestOpenSSHForwardsAPort(t *testing.T) {
	o := newOpenSSH(t, shell)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	got := run(t, o.command(t, "ssh", "-W", fmt.Sprint("localhost:", port), "pod"), "")
	assert.Equal(t, result{0, "hello", ""}, got)
	got = run(t, o.command(t, "ssh", "-W", "192.0.2.1:22", "pod"), "")
	assert.Equal(t, 255, got.status)
	assert.Contains(t, got.stderr, "forwarding failed")
}

func TestACommandEndsWhenOpenSSHIsKilled(t *testing.T) {
	ended := make(chan struct{})
	started := make(chan struct{})
	o := newOpenSSH(t, runnerFunc(func(ctx context.Context, _ sshd.Command) (int, error) {
		close(started)
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}))
	cmd := o.command(t, "ssh", "pod", "sleep 1000")
	require.NoError(t, cmd.Start())
	<-started
	require.NoError(t, cmd.Process.Kill())
	<-ended
	_ = cmd.Wait()
}

func TestManyOpenSSHClientsAtOnce(t *testing.T) {
	o := newOpenSSH(t, shell)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			assert.Equal(t, result{0, fmt.Sprint(i, "\n"), ""}, run(t, o.command(t, "ssh", "-n", "pod", fmt.Sprint("echo ", i)), ""))
		})
	}
	all.Wait()
}
