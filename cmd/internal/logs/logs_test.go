package logs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// loud prints more with %+v, as errors with stacks do.
type loud struct{ error }

func (l loud) Format(s fmt.State, _ rune) { fmt.Fprint(s, l.Error(), "\nmain.main\n\tmain.go:1") }

func TestWhatIsExpectedIsNoError(t *testing.T) {
	expected := Expected{Message: "could not refresh", Error: "the object has been modified", Says: "another process was quicker"}
	for sentence, tc := range map[string]struct {
		level   slog.Level
		message string
		err     error
		want    string
	}{
		"what is expected": {slog.LevelInfo, "could not refresh certs", errors.New("the object has been modified; try again"),
			`level=INFO msg="another process was quicker" logger=rotation err="the object has been modified; try again"`},
		"another error": {slog.LevelInfo, "could not refresh certs", errors.New("no route"), `level=ERROR msg="could not refresh certs" logger=rotation err="no route"`},
		"another line":  {slog.LevelInfo, "writing", errors.New("the object has been modified"), `level=ERROR msg=writing logger=rotation err="the object has been modified"`},
		"no stack":      {slog.LevelInfo, "writing", loud{errors.New("no room")}, `level=ERROR msg=writing logger=rotation err="no room"`},
		"only errors":   {slog.LevelError, "could not refresh certs", errors.New("the object has been modified"), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			log, err := New(&out, "text", tc.level, expected)
			require.NoError(t, err)
			log.WithName("rotation").Error(tc.err, tc.message)
			_, line, _ := bytes.Cut(out.Bytes(), []byte(" "))
			assert.Equal(t, tc.want, string(bytes.TrimSpace(line)))
		})
	}
	_, err := New(nil, "xml", slog.LevelInfo)
	assert.ErrorContains(t, err, "--log-format is text or json")
}
