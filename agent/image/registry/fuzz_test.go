package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In a fuzzer's manifest these stand for what is right.
const (
	rightDigest = "DIGEST" // of the blob
	rightSize   = "SIZE"
)

// FuzzRegistry: whatever a registry answers, what is kept under a digest has that digest, all
// of it is in the layout, and errors are short and can be shown.
func FuzzRegistry(f *testing.F) {
	const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:DIGEST","size":SIZE},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:DIGEST","size":SIZE}]}`
	const index = `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:DIGEST","size":SIZE,"platform":{"os":"linux","architecture":"amd64"}}]}`
	const oci, ociIndex = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	f.Add(200, oci, []byte(manifest), []byte(`{"architecture":"amd64","os":"linux","config":{"Env":["A=b"]},"rootfs":{"type":"layers","diff_ids":["sha256:00"]}}`))
	f.Add(200, oci, []byte(manifest), []byte(`{"architecture":"vax","history":null}`))
	f.Add(200, oci, []byte(strings.ReplaceAll(manifest, "SIZE", "-1")), []byte(`{}`))
	f.Add(200, oci, []byte(strings.ReplaceAll(manifest, "sha256:DIGEST", "sha512:../../x")), []byte(`{}`))
	f.Add(200, ociIndex, []byte(index), []byte(manifest))
	f.Add(200, ociIndex, []byte(`{"manifests":[null,{}]}`), []byte(`null`))
	f.Add(200, "application/vnd.docker.distribution.manifest.v1+json", []byte(`{"schemaVersion":1}`), []byte(`[]`))
	f.Add(200, oci, []byte(`null`), []byte(`null`))
	f.Add(403, "application/json", []byte(`{"errors":[{"code":"DENIED","message":"`+strings.Repeat("\u20ac", 500)+`"}]}`), []byte{})
	f.Add(404, "text/html", []byte("<html>\xff\x00\n"+strings.Repeat("x", 2000)), []byte{})

	var answer struct {
		status         int
		media          string
		manifest, blob []byte
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.URL.Path == "/v2/":
		case strings.Contains(q.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", answer.media)
			w.WriteHeader(answer.status)
			_, _ = w.Write(answer.manifest)
		default:
			_, _ = w.Write(answer.blob)
		}
	}))
	f.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	f.Fuzz(func(t *testing.T, status int, media string, manifest, blob []byte) {
		if status < 200 || status > 599 || status/100 == 3 || strings.ContainsFunc(media, func(r rune) bool { return r < ' ' || r > '~' }) {
			return // no answer of HTTP's, or to ask elsewhere
		}
		sum := sha256.Sum256(blob)
		answer.status, answer.media, answer.blob = status, media, blob
		answer.manifest = []byte(strings.NewReplacer(rightDigest, hex.EncodeToString(sum[:]), rightSize, strconv.Itoa(len(blob))).Replace(string(manifest)))
		client, err := New(Config{Insecure: []string{host}, Platform: v1.Platform{OS: "linux", Architecture: "amd64"}})
		require.NoError(t, err)
		around := t.TempDir()
		layout := filepath.Join(around, "layout")
		require.NoError(t, os.Mkdir(layout, 0o700))
		// A registry that fails is asked again; that takes time and finds nothing.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := client.Resolve(ctx, host+"/a:1"); err != nil {
			shownInFull(t, err)
		}
		copied, err := client.Begin(ctx, host+"/a:1", layout)
		if err == nil {
			m, config := copied.Image()
			require.NotNil(t, config)
			ready := make(chan int, len(m.Layers))
			err = copied.Layers(ctx, func(i int) { ready <- i })
			if err == nil {
				assert.Len(t, ready, len(m.Layers))
				require.NoError(t, copied.Seal("a"))
			}
		}
		if err != nil {
			shownInFull(t, err)
		}
		require.NoError(t, filepath.WalkDir(around, func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			name, _ := filepath.Rel(layout, path)
			if e.IsDir() || name == "oci-layout" || name == "index.json" || strings.HasPrefix(filepath.Base(name), ".part-") {
				return nil
			}
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			sum := sha256.Sum256(content)
			assert.Equal(t, filepath.Join("blobs", "sha256", hex.EncodeToString(sum[:])), name)
			return nil
		}))
	})
}

// shownInFull tells that an error of a registry's can stand in an Event.
func shownInFull(t *testing.T, err error) {
	t.Helper()
	var told *Error
	if errors.As(err, &told) {
		assert.True(t, utf8.ValidString(told.Error()), "%q", told.Error())
		assert.LessOrEqual(t, len(told.Error()), 1000)
		assert.NotContains(t, told.Error(), "\n")
	}
}
