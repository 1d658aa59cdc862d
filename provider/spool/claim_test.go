package spool

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALinkWhoseAnswerWasLost(t *testing.T) {
	for sentence, tc := range map[string]struct {
		linked bool
		want   error
	}{
		"a link that was made, and asked for again, is ours":       {linked: true},
		"where the file has no second link, the link is another's": {want: fs.ErrExist},
	} {
		t.Run(sentence, func(t *testing.T) {
			from, to := filepath.Join(t.TempDir(), "tmp"), filepath.Join(t.TempDir(), "claim.json")
			require.NoError(t, os.WriteFile(from, nil, 0o600))
			err := link(from, to, func(from, to string) error {
				if tc.linked {
					require.NoError(t, os.Link(from, to))
				}
				return &os.LinkError{Op: "link", Old: from, New: to, Err: fs.ErrExist}
			})
			if tc.want == nil {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, tc.want)
		})
	}
}
