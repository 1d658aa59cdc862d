package local

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	const rest = " 10 42 42 0 -1 4194304 120 0 0 0 0 0 0 0 20 0 1 0 123456 2500000 200 18446744073709551615 1 1\n"
	tests := map[string]struct {
		line string
		want process
	}{
		"a shell":                             {"42 (sh) S" + rest, process{PID: 42, Parent: 10, Session: 42, Start: 123456}},
		"a command with brackets and a space": {"42 (a) (b c) R" + rest, process{PID: 42, Parent: 10, Session: 42, Start: 123456}},
		"a zombie":                            {"42 (sh) Z" + rest, process{PID: 42, Parent: 10, Session: 42, Start: 123456, Zombie: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tt.line)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	for _, line := range []string{"", "42", "42 (sh) S 1 2", "x (sh) S" + rest, "42 )sh( S" + rest} {
		_, err := parseStat(line)
		assert.Error(t, err, line)
	}
}

func TestAProcessIsAliveUntilItEnds(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p, ok := readProcess(cmd.Process.Pid)
	require.True(t, ok)
	assert.Equal(t, os.Getpid(), p.Parent)
	assert.True(t, p.alive())
	another := p
	another.Start++
	assert.False(t, another.alive(), "its number is another's now")
	family, err := another.family()
	require.NoError(t, err)
	assert.Empty(t, family)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	assert.False(t, p.alive())
	assert.NoError(t, p.terminate())
	assert.NoError(t, p.kill())
}
