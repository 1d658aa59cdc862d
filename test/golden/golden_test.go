package golden

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFileIsWrittenOnlyWhenThatIsAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	before := flag.Lookup("update").Value.String()
	t.Cleanup(func() { require.NoError(t, flag.Set("update", before)) })
	require.NoError(t, flag.Set("update", "true"))
	Equal(t, path, "one\n")
	require.NoError(t, flag.Set("update", "false"))
	Equal(t, path, "one\n")
	refused := &recorder{TB: t}
	Equal(refused, path, "two\n")
	require.True(t, refused.failed)
	Equal(t, path, "one\n")
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
