package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheEndOfALongTerminationMessageCounts(t *testing.T) {
	for sentence, c := range map[string]struct {
		written string
		limit   int
		want    string
	}{
		"all of a short one":                           {"done", maxTermination, "done"},
		"the last 4096 bytes":                          {strings.Repeat("a", 5000) + strings.Repeat("b", maxTermination), maxPodTermination, strings.Repeat("b", maxTermination)},
		"and their beginning where containers share":   {"a" + strings.Repeat("b", 3000) + strings.Repeat("c", 1096), 3500, strings.Repeat("b", 3000) + strings.Repeat("c", 500)},
		"without what is no UTF-8":                     {"a\xffb", maxTermination, "ab"},
		"without half a letter where the message ends": {"aé", 2, "a"},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := terminationFile(filepath.Join(t.TempDir(), "main"))
			require.NoError(t, os.WriteFile(string(f), []byte(c.written), 0o600))
			message, err := f.message(c.limit, false, "")
			require.NoError(t, err)
			assert.Equal(t, c.want, message)
		})
	}
}
