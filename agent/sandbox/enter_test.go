package sandbox_test

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/sandbox"
)

// scriptVariable makes this test's program run a shell script, once it has
// entered its user namespace, in place of the tests.
const scriptVariable = "SANDBOX_TEST_SCRIPT"

// The script takes over the first thread, which alone gets the signal of its
// parent's death: the tests' main goroutine must be on it.
func init() { runtime.LockOSThread() }

// entering is the program, not yet in its user namespace.
func entering(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{scriptVariable + "=" + script}
	cmd.Stderr = os.Stderr
	return cmd
}

// startEntering starts it and returns the first line that the script prints.
func startEntering(t *testing.T, script string) (*exec.Cmd, string) {
	t.Helper()
	cmd := entering(t, script)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd, strings.TrimSpace(line)
}

func eventuallyGone(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		// A zombie that nobody here reaps is gone enough.
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return unix.Kill(n, 0) != nil || err != nil || strings.Contains(string(stat), ") Z ")
	}, 5*time.Second, 5*time.Millisecond)
}

func TestEnterKeepsTheUserAndReturnsTheExitCode(t *testing.T) {
	out, err := entering(t, "id -u; id -g; grep CapAmb /proc/self/status; exit 7").Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 7, exit.ExitCode())
	want := strconv.Itoa(os.Getuid()) + "\n" + strconv.Itoa(os.Getgid()) + "\nCapAmb:\t0000000000240002\n"
	assert.Equal(t, want, string(out))
}

func TestEnterPassesSignalsOn(t *testing.T) {
	cmd, _ := startEntering(t, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")
	require.NoError(t, cmd.Process.Signal(unix.SIGTERM))
	_ = cmd.Wait()
	assert.Equal(t, 9, cmd.ProcessState.ExitCode())
}

func TestEnterKillsWhatIsLeftBehind(t *testing.T) {
	cmd, pid := startEntering(t, "setsid sh -c 'sleep 100 & echo $!' & wait; kill -KILL $$")
	_ = cmd.Wait()
	assert.Equal(t, 137, cmd.ProcessState.ExitCode())
	eventuallyGone(t, pid)
}

func TestTheProgramEndsWithTheProcessThatEnteredForIt(t *testing.T) {
	cmd, pid := startEntering(t, "echo $$; exec sleep 100")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventuallyGone(t, pid)
}

func TestEnterCanBeSwitchedOff(t *testing.T) {
	t.Setenv(sandbox.ModeVariable, "off")
	entry := sandbox.Enter()
	assert.False(t, entry.Ended)
	require.ErrorIs(t, entry.Unavailable, sandbox.ErrOff)
}
