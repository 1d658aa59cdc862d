package terminal_test

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/terminal"
)

func open(t *testing.T) *terminal.Terminal {
	t.Helper()
	term, err := terminal.Open()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, term.Close()) })
	return term
}

func TestWhatIsTypedIsReadAndEchoed(t *testing.T) {
	term := open(t)
	_, err := io.WriteString(term.Master, "hello\n")
	require.NoError(t, err)
	line := make([]byte, 16)
	n, err := term.Program.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(line[:n]))
	n, err = term.Master.Read(line)
	require.NoError(t, err)
	assert.Equal(t, "hello\r\n", string(line[:n]))
}

func TestASizeReachesTheProgram(t *testing.T) {
	term := open(t)
	require.NoError(t, term.Resize(100, 30))
	size, err := unix.IoctlGetWinsize(int(term.Program.Fd()), unix.TIOCGWINSZ)
	require.NoError(t, err)
	assert.EqualValues(t, 100, size.Col)
	assert.EqualValues(t, 30, size.Row)
}

func TestAReadEndsWithTheLastProgram(t *testing.T) {
	term := open(t)
	require.NoError(t, term.Program.Close())
	_, err := term.Master.Read(make([]byte, 1))
	assert.ErrorIs(t, err, unix.EIO)
}

func TestClosingAndDeadlinesWakeAReader(t *testing.T) {
	term := open(t)
	require.NoError(t, term.Master.SetReadDeadline(time.Now()))
	_, err := term.Master.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, term.Master.SetReadDeadline(time.Time{}))
	read := make(chan error, 1)
	go func() {
		_, err := term.Master.Read(make([]byte, 1))
		read <- err
	}()
	require.NoError(t, term.Master.Close())
	assert.Error(t, <-read)
}
