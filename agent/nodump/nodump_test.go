package nodump_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/nodump"
)

// role tells this program, started again, what to be.
const role = "NODUMP_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "secretive":
		if err := nodump.Apply(); err != nil {
			fmt.Println(err)
		}
		fallthrough
	case "plain":
		// What it starts is plain again: that says what it can see of itself.
		child := exec.Command("/bin/cat", "/proc/self/environ")
		child.Env = []string{"CHILD=1"}
		seen, err := child.Output()
		fmt.Println(string(seen), err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "curious":
		_, err := os.ReadFile("/proc/" + os.Args[1] + "/environ")
		fmt.Println(err == nil)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs this program in a role, as an ordinary user.
func start(t *testing.T, as string, args ...string) (pid string, says string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = []string{role + "=" + as}
	if os.Getuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return fmt.Sprint(cmd.Process.Pid), strings.TrimSpace(line)
}

func TestNobodyOfTheSameUserLooksInside(t *testing.T) {
	plain, said := start(t, "plain")
	assert.Contains(t, said, "CHILD=1")
	_, sees := start(t, "curious", plain)
	assert.Equal(t, "true", sees, "or this test would show nothing")

	secretive, said := start(t, "secretive")
	assert.Contains(t, said, "CHILD=1", "what it starts is as any process")
	_, sees = start(t, "curious", secretive)
	assert.Equal(t, "false", sees)
}
