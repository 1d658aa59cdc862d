package shell

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestAddress(t *testing.T) {
	at, err := address(&rest.Config{Host: "https://api:6443"}, Session{
		Namespace: "ns", Pod: "p", Container: "main", Command: []string{"echo", "a b; c"}, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
	})
	require.NoError(t, err)
	assert.Equal(t, "https://api:6443/api/v1/namespaces/ns/pods/p/exec?command=echo&command=a+b%3B+c&container=main&stderr=true&stdin=true&stdout=true", at.String())
	at, err = address(&rest.Config{Host: "https://api:6443"}, Session{
		Namespace: "ns", Pod: "p", Command: []string{"sh"}, Terminal: true, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
	})
	require.NoError(t, err)
	assert.Equal(t, "https://api:6443/api/v1/namespaces/ns/pods/p/exec?command=sh&stdin=true&stdout=true&tty=true", at.String(), "a terminal has one output")
}

// The shell is the first of these that there is.
func TestLogin(t *testing.T) {
	for name, test := range map[string]struct{ shell, path, want string }{
		"the user's own":        {"/bin/sh", os.Getenv("PATH"), "/bin/sh"},
		"bash":                  {"", os.Getenv("PATH"), "bash"},
		"not one that is gone":  {"/no/zsh", os.Getenv("PATH"), "bash"},
		"sh, where nothing is":  {"", t.TempDir(), "sh"},
		"with spaces, as it is": {"/no such; echo", os.Getenv("PATH"), "bash"},
	} {
		t.Run(name, func(t *testing.T) {
			path := test.path
			if test.want == "sh" {
				require.NoError(t, os.Symlink("/bin/sh", path+"/sh"))
			}
			cmd := exec.Command("/bin/sh", Login()[1:]...)
			cmd.Env = []string{"SHELL=" + test.shell, "PATH=" + path}
			cmd.Stdin = strings.NewReader("echo $0\n")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, test.want, strings.TrimSpace(string(out)))
		})
	}
}

func TestNoTerminal(t *testing.T) {
	err := Run(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}, Session{Pod: "p", Terminal: true, Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}})
	assert.ErrorContains(t, err, "leave out --tty")
}
