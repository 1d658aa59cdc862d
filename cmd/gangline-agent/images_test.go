package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/registry"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAnAdministratorFillsAStoreAndMakesRoomInIt(t *testing.T) {
	r := registry.Start(t)
	digest := r.Push("proxy/team/app:1", registry.Image(t, v1.Config{}, registry.Files(map[string]string{"a": "b"})))
	store := filepath.Join(t.TempDir(), "store")

	out, err := run(t, "images", "pull", "--store", store, "--insecure", r.Host(), "--mirror", "registry.invalid="+r.Host()+"/proxy", "registry.invalid/team/app:1")
	require.NoError(t, err)
	assert.Contains(t, out, "registry.invalid/team/app@"+digest+" "+store)

	out, err = run(t, "images", "list", "--store", store)
	require.NoError(t, err)
	assert.Contains(t, out, digest[:19])
	assert.Contains(t, out, "registry.invalid/team/app:1")
	out, err = run(t, "images", "list", "--store", store, "-o", "json")
	require.NoError(t, err)
	assert.Contains(t, out, `"digest": "`+digest+`"`)

	used, err := filepath.Glob(filepath.Join(store, "images/*/*/used"))
	require.NoError(t, err)
	require.Len(t, used, 1)
	night := time.Now().Add(-12 * time.Hour)
	require.NoError(t, os.Chtimes(used[0], night, night))
	out, err = run(t, "images", "prune", "--store", store)
	require.NoError(t, err)
	assert.Contains(t, out, "0 removed", "it was used within the last day: a job may be suspended overnight")
	out, err = run(t, "images", "prune", "--store", store, "--min-age", "0s", "--max-size", "1Gi")
	require.NoError(t, err)
	assert.Contains(t, out, "0 removed", "the store is small enough")
	out, err = run(t, "images", "prune", "--store", store, "--min-age", "0s")
	require.NoError(t, err)
	assert.Contains(t, out, "removed "+digest)
	assert.Contains(t, out, "1 removed, 0.0 MB left")
}

func TestWhoLooksMakesNoStore(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	for _, look := range []string{"list", "prune"} {
		_, err := run(t, "images", look, "--store", store)
		require.ErrorContains(t, err, "there is no image store")
	}
	assert.NoDirExists(t, store)
}

func TestFlagsThatCannotBe(t *testing.T) {
	store := t.TempDir()
	for sentence, tc := range map[string]struct {
		args []string
		want string
	}{
		"no store":                  {[]string{"list"}, `"store" not set`},
		"a size that is none":       {[]string{"prune", "--store", store, "--max-size", "much"}, "a quantity such as 500Gi"},
		"a mirror of nothing":       {[]string{"pull", "--store", store, "--mirror", "x", "a"}, "--mirror is HOST=MIRROR"},
		"an output that is none":    {[]string{"list", "--store", store, "-o", "yaml"}, "--output is text or json"},
		"a form that is none":       {[]string{"pull", "--store", store, "--form", "zip", "a"}, `there is no form "zip"`},
		"credentials in no file":    {[]string{"pull", "--store", store, "--credentials", "/none", "a"}, "reading the credentials"},
		"a form of no runtime":      {[]string{"pull", "--store", store, "--form", "oci", "a"}, `there is no form "oci"`},
		"a name that is no name":    {[]string{"pull", "--store", store, "A"}, "InvalidImageName"},
		"no image":                  {[]string{"pull", "--store", store}, "requires at least 1 arg"},
		"a password as an argument": {[]string{"pull", "--store", store, "--password", "x", "a"}, "unknown flag"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := run(t, append([]string{"images"}, tc.args...)...)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
