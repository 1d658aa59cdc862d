package fetch

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLayersAreDecompressedByWhatTheyAre(t *testing.T) {
	var zipped, zstandard bytes.Buffer
	g := gzip.NewWriter(&zipped)
	_, err := g.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, g.Close())
	z, err := zstd.NewWriter(&zstandard)
	require.NoError(t, err)
	_, err = z.Write([]byte("text"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	for sentence, tc := range map[string]struct{ in, want string }{
		"gzip":                     {zipped.String(), "text"},
		"two gzip files in a row":  {zipped.String() + zipped.String(), "texttext"},
		"zstd":                     {zstandard.String(), "text"},
		"what is not compressed":   {"text", "text"},
		"less than a magic number": {"t", "t"},
		"nothing":                  {"", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			r, err := decompress(strings.NewReader(tc.in))
			require.NoError(t, err)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(got))
		})
	}
}

func TestAJobThatCannotBeReadTellsNoSecret(t *testing.T) {
	err := Main(t.Context(), strings.NewReader("{\"registry\":{\"credentials\":\"hunter2 is no base64\"}}\n"), io.Discard)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
	err = Main(t.Context(), strings.NewReader("hunter2"), io.Discard)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestAJobEndsWithWhoAsked(t *testing.T) {
	in, ask := io.Pipe()
	ended := make(chan error, 1)
	var out bytes.Buffer
	go func() {
		ended <- Main(t.Context(), in, &out)
	}()
	// The tool would run for ever.
	_, err := ask.Write([]byte(`{"reference":"a/b@sha256:` + strings.Repeat("0", 64) + `","layout":"` + t.TempDir() + `","tool":["sleep","1000"]}` + "\n"))
	require.NoError(t, err)
	require.NoError(t, ask.Close())
	require.NoError(t, <-ended)
	assert.Contains(t, out.String(), `"failure"`)
}
