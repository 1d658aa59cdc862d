package jsonfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/jsonfile"
)

// FuzzFile: what is in a store's files is read as it is or not at all, and written back as it
// was read.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		`{"reference":"a:1","digest":"sha256:00","forms":{"tree":7}}`, `{"digest":"../../x"}`, `{"digest":7}`, "null", "[]", "", "\xff", `{}{}`, `{"digest":"\ud800"}`,
	} {
		f.Add([]byte(text))
	}
	type record struct {
		Reference, Digest string
		Forms             map[string]int64
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "r.json")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		var read, again record
		if err := jsonfile.Read(path, &read); err != nil {
			assert.ErrorContains(t, err, path, "whoever reads of it can look")
			return
		}
		assert.True(t, json.Valid(text))
		path = filepath.Join(filepath.Dir(path), "new", "r.json")
		require.NoError(t, jsonfile.Write(path, read))
		require.NoError(t, jsonfile.Read(path, &again))
		assert.Equal(t, read, again)
		entries, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		assert.Len(t, entries, 1, "nothing is left beside it")
	})
}
