package ulimit_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/ulimit"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

const envSet = "TEST_SET"

// TestMain makes this program one that sets its limits and becomes another.
func TestMain(m *testing.M) {
	if os.Getenv(envSet) == "" {
		os.Exit(m.Run())
	}
	err := ulimit.Set([]spool.Limit{
		{Name: "core", Value: 0}, {Name: "nofile", Value: 300}, {Name: "stack", Value: 1 << 20}, {Name: "fsize", Value: spool.Unlimited},
	})
	if err == nil {
		err = unix.Exec("/bin/sh", []string{"sh", "-c", "ulimit -S -c; ulimit -S -n; ulimit -S -s; ulimit -S -f; ulimit -H -n"}, nil)
	}
	panic(err)
}

func TestSet(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	// The hard limit of file sizes bounds "unlimited".
	cmd := exec.Command("/bin/sh", "-c", "ulimit -f 1048576; ulimit -n 400; exec "+self)
	cmd.Env = []string{envSet + "=yes"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "0 300 1024 1048576 400", strings.Join(strings.Fields(string(out)), " "))
}

func TestShort(t *testing.T) {
	var have syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(unix.RLIMIT_NOFILE, &have))
	for sentence, tc := range map[string]struct {
		limit spool.Limit
		says  string
	}{
		"within the hard limit":           {spool.Limit{Name: "nofile", Value: have.Max}, ""},
		"above it":                        {spool.Limit{Name: "nofile", Value: spool.Unlimited}, "the limit nofile is to be unlimited, and this node's hard limit is "},
		"above it, and that is all right": {spool.Limit{Name: "nofile", Value: spool.Unlimited, Silent: true}, ""},
		"one that is not known":           {spool.Limit{Name: "luck"}, `there is no limit "luck"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			short := ulimit.Short([]spool.Limit{tc.limit})
			if tc.says == "" {
				assert.Empty(t, short)
				return
			}
			require.Len(t, short, 1)
			assert.Contains(t, short[0], tc.says)
		})
	}
	assert.Empty(t, ulimit.Short(nil))
}

func TestKnowsAllThatASiteMaySet(t *testing.T) {
	for _, name := range translate.LimitNames() {
		assert.Empty(t, ulimit.Short([]spool.Limit{{Name: name}}))
	}
}
