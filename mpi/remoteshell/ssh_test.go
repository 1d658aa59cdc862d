package remoteshell_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi"
)

func TestTheRemoteShellDoesWhatSSHDoes(t *testing.T) {
	g := newGang(t, "pi-0", "pi-1")
	tests := map[string]struct {
		args  []string
		stdin string
		want  result
	}{
		"a command on a host":                  {[]string{"pi-0", "echo", "$POD"}, "", result{0, "pi-0\n", ""}},
		"another host at the same address":     {[]string{"pi-1.pi", "echo $POD"}, "", result{0, "pi-1\n", ""}},
		"the words make one line for a shell":  {[]string{"pi-0", "echo", "a  b;", "echo", "c"}, "", result{0, "a b\nc\n", ""}},
		"its exit status is the remote one":    {[]string{"pi-0", "exit 42"}, "", result{42, "", ""}},
		"a signal's as a shell's":              {[]string{"pi-0", "kill -TERM $$"}, "", result{143, "", ""}},
		"both outputs stay apart":              {[]string{"pi-0", "echo o; echo e >&2"}, "", result{0, "o\n", "e\n"}},
		"standard input arrives":               {[]string{"pi-0", "wc -c"}, strings.Repeat("x", 300_000), result{0, "300000\n", ""}},
		"not with -n":                          {[]string{"-n", "pi-0", "wc -c"}, "x", result{0, "0\n", ""}},
		"no command is a shell":                {[]string{"-T", "pi-1"}, "echo $POD\nexit 7\n", result{7, "pi-1\n", ""}},
		"variables are sent when asked to":     {[]string{"-o", "SetEnv=A=b", "pi-0", "echo $A"}, "", result{0, "b\n", ""}},
		"a forced terminal":                    {[]string{"-tt", "-q", "pi-0", "test -t 1 && echo tty"}, "", result{0, "tty\r\n", ""}},
		"a terminal needs one here":            {[]string{"-t", "pi-0", "test -t 1 || echo none"}, "", result{0, "none\n", "Pseudo-terminal will not be allocated because stdin is not a terminal.\n"}},
		"an unknown option is our own failure": {[]string{"-Z", "pi-0"}, "", result{255, "", "ssh: unknown option -Z\n"}},
		"so is an unknown subsystem":           {[]string{"-s", "pi-0", "tuba"}, "", result{255, "", "ssh: pi-0: the SSH service refused the request subsystem tuba\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, g.run(t, test.stdin, test.args...))
		})
	}
}

func TestWhatItDoesNotDoItselfTheRealSSHDoes(t *testing.T) {
	g := newGang(t, "pi-0", "pi-1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
	}()
	got := g.run(t, "", "-W", listener.Addr().String(), "pi-1.pi")
	assert.Equal(t, result{0, "hello", ""}, got, "the real ssh finds the gang's hosts")

	g.env[0] = "PATH=" + filepath.Dir(g.ssh)
	got = g.run(t, "", "-N", "-L1:x:2", "pi-0")
	assert.Equal(t, result{255, "", "ssh: -N is not supported between the hosts of a gang where no other ssh is on PATH\n"}, got)
}

func TestLocalhostIsTheOwnPodUnlessAPortIsGiven(t *testing.T) {
	g := newGang(t, "pi-0", "pi-1")
	g.peers.Own = "pi-1"
	g.write(t)
	assert.Equal(t, result{0, "pi-1\n", ""}, g.run(t, "", "localhost", "echo $POD"))
	got := g.run(t, "", "-p", "1", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "localhost", "echo $POD")
	assert.Equal(t, 255, got.status, "the real ssh finds nobody there")
	assert.Empty(t, got.stdout)
}

func TestVersionMentionsOpenSSH(t *testing.T) {
	got := newGang(t).run(t, "", "-V")
	assert.Equal(t, 0, got.status)
	assert.Contains(t, got.stderr, "OpenSSH")
}

func TestAnUnknownHostGoesToTheRealSSHAsItCame(t *testing.T) {
	g := newGang(t, "pi-0")
	real := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(real, "ssh"), []byte("#!/bin/sh\necho real; for a; do echo \"<$a>\"; done; exit 3\n"), 0o755))
	g.env[0] = "PATH=" + filepath.Dir(g.ssh) + ":" + real
	args := []string{"-o", "SendEnv=GIT_PROTOCOL", "git@example.org", "git-upload-pack 'a b'"}
	want := "real\n<" + strings.Join(args, ">\n<") + ">\n"
	assert.Equal(t, result{3, want, ""}, g.run(t, "", args...))
}

func TestAnUnknownHostIsExplained(t *testing.T) {
	g := newGang(t, "pi-0", "pi-1")
	g.env[0] = "PATH=" + filepath.Dir(g.ssh)
	got := g.run(t, "", "pi-7", "true")
	assert.Equal(t, result{255, "", "ssh: pi-7 is not a host of this gang, and no other ssh is on PATH; the gang's hosts are pi-0, pi-1\n"}, got)
	assert.Contains(t, g.run(t, "").stderr, "usage: ssh")

	g.env = g.env[:2]
	assert.Contains(t, g.run(t, "", "pi-0", "true").stderr, "GANGLINE_DIR is not set")
}

func TestAHostThatListensLateIsWaitedFor(t *testing.T) {
	g := newGang(t, "pi-0")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())
	port := g.peers.Hosts[0].Port
	g.peers.Hosts[0].Port = addr.Port
	g.write(t)

	cmd := g.command(t, g.ssh, "-v", "pi-0", "echo $POD")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stderr)
	require.True(t, lines.Scan(), "it says that it tries again")
	assert.Contains(t, lines.Text(), "refused")
	// The agent is up again, at another port.
	g.peers.Hosts[0].Port = port
	g.write(t)
	for lines.Scan() {
	}
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "pi-0\n", stdout.String())
}

func TestTheWaitForAHostEnds(t *testing.T) {
	g := newGang(t, "pi-0")
	g.peers.Hosts[0].Port = 1
	g.write(t)
	start := time.Now()
	got := g.run(t, "", "-o", "ConnectTimeout=6", "pi-0", "true")
	assert.Equal(t, 255, got.status)
	lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
	require.Len(t, lines, 2, got.stderr)
	assert.Contains(t, lines[0], "ssh: still waiting for pi-0")
	assert.Contains(t, lines[1], "ssh: pi-0: no connection within 6s")
	assert.WithinDuration(t, start.Add(6*time.Second), time.Now(), 3*time.Second)
}

func TestAWrongKeyFailsAtOnce(t *testing.T) {
	g := newGang(t, "pi-0")
	others, err := mpi.DeriveKeys(bytes.Repeat([]byte{9}, mpi.MinSecret), "other")
	require.NoError(t, err)
	mine := g.peers.HostKey
	g.peers.HostKey = string(others.HostPublic)
	g.write(t)
	got := g.run(t, "", "pi-0", "true")
	assert.Equal(t, 255, got.status)
	assert.Contains(t, got.stderr, "host key mismatch")

	g.peers.HostKey, g.keys.ClientPrivate = mine, others.ClientPrivate
	g.write(t)
	got = g.run(t, "", "pi-0", "true")
	assert.Equal(t, 255, got.status)
	assert.Contains(t, got.stderr, "unable to authenticate")
}

func TestSignalsReachTheCommand(t *testing.T) {
	g := newGang(t, "pi-0")
	for sig, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"} {
		t.Run(name, func(t *testing.T) {
			cmd := g.command(t, g.ssh, "pi-0", "trap 'echo got "+name+"; exit 9' "+name+"; echo ready; while :; do sleep 0.05; done")
			output, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(output)
			require.True(t, lines.Scan())
			require.NoError(t, cmd.Process.Signal(sig))
			require.True(t, lines.Scan())
			assert.Equal(t, "got "+name, lines.Text())
			assert.Error(t, cmd.Wait())
			assert.Equal(t, 9, cmd.ProcessState.ExitCode())
		})
	}
}

func TestTheSecondSignalEndsTheRemoteShellAndTheCommand(t *testing.T) {
	g := newGang(t, "pi-0")
	cmd := g.command(t, g.ssh, "pi-0", "trap 'echo again' INT; echo $$; while :; do sleep 0.05; done")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	pid := lines.Text()
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.True(t, lines.Scan())
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 255, cmd.ProcessState.ExitCode())
	gone := func() bool { return !alive(pid) }
	assert.Eventually(t, gone, 5*time.Second, 10*time.Millisecond)
}

func TestSeveralTerminationsAtOnceLeaveTheCommandItsTime(t *testing.T) {
	g := newGang(t, "pi-0")
	cmd := g.command(t, g.ssh, "pi-0", "trap 'echo saving; sleep 1; echo saved; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.True(t, lines.Scan())
	assert.Equal(t, "saved", lines.Text())
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 9, cmd.ProcessState.ExitCode())
}

func TestTheCommandEndsWhenTheRemoteShellIsKilled(t *testing.T) {
	g := newGang(t, "pi-0")
	cmd := g.command(t, g.ssh, "pi-0", "echo $$; exec sleep 1000")
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(output)
	require.True(t, lines.Scan())
	require.NoError(t, cmd.Process.Kill())
	assert.Error(t, cmd.Wait())
	gone := func() bool { return !alive(lines.Text()) }
	assert.Eventually(t, gone, 5*time.Second, 10*time.Millisecond)
}

// alive tells whether a process runs; one that only waits for its parent does
// not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

func TestATerminalIsPassedThrough(t *testing.T) {
	g := newGang(t, "pi-0")
	cmd := g.command(t, g.ssh, "pi-0")
	cmd.Env = append(cmd.Env, "TERM=vt100")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	defer terminal.Close()
	screen := bufio.NewReader(terminal)
	expect := func(text string) {
		t.Helper()
		var seen strings.Builder
		late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		defer late.Stop()
		for !strings.Contains(seen.String(), text) {
			b, err := screen.ReadByte()
			require.NoError(t, err, "saw %q", seen.String())
			seen.WriteByte(b)
		}
	}
	typeIn := func(text string) {
		_, err := io.WriteString(terminal, text)
		require.NoError(t, err)
	}
	typeIn("stty size; echo $TERM\n")
	expect("24 80\r\nvt100\r\n")
	typeIn("sh -c 'trap \"stty size; exit\" WINCH; echo read''y; while :; do sleep 0.05; done'\n")
	expect("ready\r\n")
	require.NoError(t, pty.Setsize(terminal, &pty.Winsize{Rows: 43, Cols: 132}))
	expect("43 132\r\n")
	typeIn("sh -c 'echo g''o; exec sleep 1000'\n")
	expect("go\r\n")
	typeIn("\x03") // the remote terminal, not ours, makes a signal of it
	typeIn("exit 6\n")
	_, _ = io.Copy(io.Discard, screen)
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 6, cmd.ProcessState.ExitCode())
}

func TestManyRemoteShellsAtOnce(t *testing.T) {
	g := newGang(t, "pi-0", "pi-1")
	var all sync.WaitGroup
	for i := range 100 {
		host := []string{"pi-0", "pi-1"}[i%2]
		all.Go(func() {
			assert.Equal(t, result{0, host + "\n", ""}, g.run(t, "", host, "echo $POD"))
		})
	}
	all.Wait()
}

func TestScpAndRsyncCopyThroughTheRemoteShell(t *testing.T) {
	g := newGang(t, "pi-0")
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	require.NoError(t, os.WriteFile(from, data, 0o640))
	tests := map[string]*exec.Cmd{
		"scp there":     g.command(t, "scp", "-O", "-S", g.ssh, from, "pi-0:"+to+"1"),
		"scp back":      g.command(t, "scp", "-O", "-S", g.ssh, "pi-0:"+from, to+"2"),
		"tar in a pipe": g.command(t, "sh", "-c", "cat "+from+" | ssh pi-0 'cat > "+to+"3'"),
	}
	for name, cmd := range tests {
		t.Run(name, func(t *testing.T) {
			got := finish(t, cmd)
			require.Equal(t, 0, got.status, got.stderr)
		})
	}
	for _, n := range []string{"1", "2", "3"} {
		copied, err := os.ReadFile(to + n)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(data, copied))
	}
}

func TestAPodThatIsRestartedIsFoundAgain(t *testing.T) {
	g := newGang(t, "pi-0")
	addr := sshdtest.Start(t, g.keys, sshdtest.Shell{Env: append(g.env, "POD=new")})
	g.peers.Hosts[0].Port = addr.Port
	g.write(t)
	assert.Equal(t, result{0, "new\n", ""}, g.run(t, "", "pi-0", "echo $POD"))
}
