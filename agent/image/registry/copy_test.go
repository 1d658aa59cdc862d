package registry

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/dirs"
	"github.com/gangline/gangline/agent/image/jsonfile"
)

func TestADownloadThatBringsNothingEnds(t *testing.T) {
	const blob = "all of a blob"
	for sentence, tc := range map[string]struct {
		have int64  // from an earlier try
		send string // before the registry falls silent; it knows no ranges
		want string
	}{
		"at once":                               {0, "", ""},
		"in the middle":                         {0, blob[:5], blob[:5]},
		"while what is there already is resent": {7, blob[:5], ""},
		"after what is there already":           {7, blob[:9], blob[7:9]},
	} {
		t.Run(sentence, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = w.Write([]byte(tc.send)) // what the test is about is what follows
				_ = http.NewResponseController(w).Flush()
				<-q.Context().Done()
			}))
			defer server.Close()
			ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://")+"/a:1", name.Insecure)
			require.NoError(t, err)
			c := &Copy{manifest: &v1.Manifest{}, stall: 50 * time.Millisecond, session: &session{ref: ref}, client: server.Client()}
			var came bytes.Buffer
			d := v1.Descriptor{Size: int64(len(blob)), Digest: v1.Hash{Algorithm: "sha256", Hex: "00"}}
			_, err = c.piece(t.Context(), d, tc.have, &came, sha256.New())
			assert.ErrorIs(t, err, errStalled)
			assert.Equal(t, tc.want, came.String())
		})
	}
}

func TestAConfigurationThatIsTooLargeIsNotFetched(t *testing.T) {
	c := &Copy{layout: t.TempDir(), manifest: &v1.Manifest{Config: v1.Descriptor{
		Size: jsonfile.Most + 1, Digest: v1.Hash{Algorithm: "sha256", Hex: "00"},
	}}}
	require.NoError(t, dirs.Make(c.layout+"/blobs"))
	require.NoError(t, dirs.Make(c.layout+"/blobs/sha256"))
	path := BlobPath(c.layout, c.manifest.Config.Digest)
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	require.NoError(t, os.Truncate(path, c.manifest.Config.Size)) // as if it had been fetched
	assert.ErrorContains(t, c.readConfig(t.Context(), v1.Platform{}), "may have")
}
