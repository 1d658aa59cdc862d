package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
)

// TestATool runs programs while the table reaps all children: how they end is told even so.
func TestATool(t *testing.T) {
	table, err := process.NewTable()
	require.NoError(t, err)
	// The orphans of other tests' agents are not to wait here for somebody to reap them.
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) //nolint:errcheck // it cannot fail
	ctx, stop := context.WithCancel(t.Context())
	var reaping sync.WaitGroup
	reaping.Go(func() { table.Run(ctx) })
	defer reaping.Wait()
	defer stop()
	s := &slot{table: table, logger: slog.New(slog.DiscardHandler)}

	for sentence, tc := range map[string]struct {
		argv []string
		want string
	}{
		"that succeeds":      {[]string{"true"}, ""},
		"that complains":     {[]string{"sh", "-c", "echo no; echo way >&2; exit 3"}, "sh ended with code 3: no\nway"},
		"that is killed":     {[]string{"sh", "-c", "kill -KILL $$"}, "sh ended with code 137: "},
		"that there is not":  {[]string{"/opt/none"}, "starting /opt/none: "},
		"that reads nothing": {[]string{"cat"}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := s.runTool(t.Context(), tc.argv, nil, nil)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}

	t.Run("with an input and an output of its own", func(t *testing.T) {
		in, ask, err := os.Pipe()
		require.NoError(t, err)
		defer in.Close() //nolint:errcheck // only read
		out, answer, err := os.Pipe()
		require.NoError(t, err)
		defer out.Close() //nolint:errcheck // only read
		_, err = ask.WriteString("text")
		require.NoError(t, errors.Join(err, ask.Close()))
		err = s.runTool(t.Context(), []string{"sh", "-c", "cat; echo no way >&2; exit 3"}, in, answer)
		assert.EqualError(t, err, "sh ended with code 3: no way")
		require.NoError(t, answer.Close())
		got, err := io.ReadAll(out)
		require.NoError(t, err)
		assert.Equal(t, "text", string(got))
	})

	t.Run("that is not waited for any more", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		out, answer, err := os.Pipe()
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- s.runTool(ctx, []string{"sh", "-c", "echo; sleep 1000"}, nil, answer) }()
		_, err = out.Read(make([]byte, 1)) // it runs
		require.NoError(t, err)
		cancel(enough)
		require.ErrorIs(t, <-ended, enough)
		require.NoError(t, errors.Join(out.Close(), answer.Close()))
	})
}
