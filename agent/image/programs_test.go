package image_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/test/registry"
)

// writeLayout makes an OCI layout of an image.
func writeLayout(t *testing.T, dir string, img v1.Image) {
	t.Helper()
	written, err := layout.Write(dir, empty.Index)
	require.NoError(t, err)
	require.NoError(t, written.AppendImage(img))
}

func TestATreeIsMadeOfALayoutThatAnEarlierTryHasLeft(t *testing.T) {
	r := registry.Start(t)
	digest := r.Push("app:1", app(t, "one"))
	s := newSite(t, r)
	work := filepath.Join(s.options.Dir, "work", strings.TrimPrefix(digest, "sha256:")+"."+goarch+".hpc1.1.0")
	require.NoError(t, os.MkdirAll(work, 0o700))
	writeLayout(t, filepath.Join(work, "oci"), app(t, "one"))
	got, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	assert.Empty(t, r.Blobs())
}

func TestConversions(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	var ran [][]string
	var failure error
	converters := func(o *image.Options) {
		o.Converters = map[image.Form]string{image.FormSIF: "/opt/apptainer"}
		o.Run = func(_ context.Context, argv []string, _, _ *os.File) error {
			ran = append(ran, argv)
			tree, dst := argv[len(argv)-1], argv[len(argv)-2]
			return cmp.Or(failure, os.WriteFile(dst, []byte("sif of "+read(t, tree, "etc/text")), 0o600))
		}
	}
	s := newSite(t, r, converters)
	request := image.Request{Reference: r.Image("app:1"), Form: image.FormSIF}
	for range 2 {
		got, err := s.ensure(request)
		require.NoError(t, err)
		assert.Equal(t, "sif of one", read(t, got.Path))
		assert.Equal(t, []string{"/bin/app"}, got.Config.Entrypoint)
		assert.Equal(t, int64(len("sif of one")), got.Size)
	}
	require.Len(t, ran, 1, "one conversion")
	assert.Equal(t, []string{"/opt/apptainer", "--quiet", "build", "--force"}, ran[0][:4], "by the site's program")
	tree, err := filepath.Glob(filepath.Join(s.options.Dir, "images/*/*/tree"))
	require.NoError(t, err)
	assert.Empty(t, tree, "the tree that it was made of is not kept")

	failure = errors.New("it did not work")
	request.Reference = r.Image("two:1")
	r.Push("two:1", app(t, "two"))
	_, err = s.ensure(request)
	assert.ErrorContains(t, err, "converting the image to sif: it did not work")

	s.options.Run = nil
	s = s.agent()
	_, err = s.ensure(image.Request{Reference: r.Image("app:1")})
	require.NoError(t, err)
	blobs := r.Blobs()
	got, err := s.ensure(image.Request{Reference: r.Image("app:1"), Form: image.FormSquashfs})
	require.NoError(t, err)
	assert.Equal(t, blobs, r.Blobs(), "a tree that is there is converted without the registry")
	assert.Equal(t, "hsqs", read(t, got.Path)[:4])
	assert.Contains(t, s.events[len(s.events)-2].Message, "Converting image")

	assert.Equal(t, []string{"apptainer", "--quiet", "build", "--force", "/d", "/t"}, image.CommandLine(image.FormSIF, "/t", "/d"))
	assert.Equal(t, []string{"mksquashfs", "/t", "/d", "-comp", "gzip", "-Xcompression-level", "3", "-all-root", "-no-xattrs", "-noappend", "-no-progress"}, image.CommandLine(image.FormSquashfs, "/t", "/d"))
}

func TestTheSitesToolPulls(t *testing.T) {
	r := registry.Start(t)
	digest := r.Push("app:1", app(t, "one"))
	ready := filepath.Join(t.TempDir(), "ready")
	writeLayout(t, ready, app(t, "one"))
	tool := filepath.Join(t.TempDir(), "tool")
	// The credentials have no name (0 links) that could be left, and are there for programs
	// that the tool starts as well.
	script := "#!/bin/sh\nset -e\n[ \"$1\" = '" + r.Image("app@"+digest) + "' ]\n[ \"$(stat -L -c '%a %h' \"$3\")\" = '600 0' ]\n" +
		"grep -q '\"username\":\"u\"' \"$3\"\nsh -c 'grep -q auths \"$1\"' sh \"$3\"\ncp -r '" + ready + "' \"$2\"\n"
	require.NoError(t, os.WriteFile(tool, []byte(script), 0o755))
	s := newSite(t, r, func(o *image.Options) { o.Tool = []string{tool, "{image}", "{layout}", "{authfile}"} })
	got, err := s.ensure(image.Request{Reference: r.Image("app:1"), Credentials: registry.DockerConfig(r.Host(), "u", "p")})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	s = newSite(t, r, func(o *image.Options) { o.Tool = []string{"sh", "-c", "echo no way; exit 3"} })
	_, err = s.ensure(image.Request{Reference: r.Image("app:1")})
	assert.ErrorContains(t, err, "no way")
}

func TestAChildPullsSoThatTheAgentStaysSmall(t *testing.T) {
	r := registry.Start(t, registry.Login("u", "p"))
	r.Push("app:1", app(t, "one"))
	self, err := os.Executable()
	require.NoError(t, err)
	s := newSite(t, r, func(o *image.Options) { o.Program = self })
	got, err := s.ensure(image.Request{Reference: r.Image("app:1"), Credentials: r.DockerConfig()})
	require.NoError(t, err)
	assert.Equal(t, "one", read(t, got.Path, "etc/text"))
	_, err = s.ensure(image.Request{Reference: r.Image("none:1"), Credentials: r.DockerConfig()})
	assert.ErrorContains(t, err, "not found")
	r.Stop()
	_, err = s.ensure(image.Request{Reference: r.Image("app:1"), Policy: corev1.PullAlways})
	assert.Equal(t, image.ReasonRegistryUnavailable, reason(t, err))
}

// TestAPullersEndIsToldByWhoReapsIt has another than the store wait for all children, as the
// agent does.
func TestAPullersEndIsToldByWhoReapsIt(t *testing.T) {
	r := registry.Start(t)
	r.Push("app:1", app(t, "one"))
	s := newSite(t, r, func(o *image.Options) {
		o.Program = "/opt/gangline-agent"
		o.Run = func(_ context.Context, argv []string, in, _ *os.File) error {
			assert.Equal(t, []string{"/opt/gangline-agent", "pull", "--job"}, argv)
			_, err := in.Read(make([]byte, 1))
			return errors.Join(err, errors.New("killed for its memory"))
		}
	})
	_, err := s.ensure(image.Request{Reference: r.Image("app:1")})
	assert.Equal(t, image.ReasonErrImagePull, reason(t, err))
	assert.ErrorContains(t, err, "ended without a result: killed for its memory")
}
