package registry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
)

// Layer is a layer in the making: what a tar archive has.
type Layer []Entry

// Entry is one file of a layer.
type Entry struct {
	tar.Header
	Content []byte
}

// Files is a layer of plain files by their paths. A path that ends with a slash is a
// directory; files are programs if they begin with "#!".
func Files(files map[string]string) Layer {
	var layer Layer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := tar.Header{Name: strings.TrimPrefix(name, "/"), Typeflag: tar.TypeReg, Mode: 0o644}
		content := files[name]
		switch {
		case strings.HasSuffix(name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case strings.HasPrefix(content, "#!"):
			h.Mode = 0o755
		}
		layer = append(layer, Entry{h, []byte(content)})
	}
	return layer
}

// Symlink adds a link.
func (l Layer) Symlink(name, target string) Layer {
	return append(l, Entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil})
}

// Programs is a layer of programs of this machine (names on PATH, or paths), with the
// libraries that they are linked to, at their own paths.
func Programs(t testing.TB, programs ...string) Layer {
	t.Helper()
	wanted := map[string]bool{}
	for _, program := range programs {
		at, err := exec.LookPath(program)
		require.NoError(t, err)
		wanted[at] = true
		// Of a static program ldd says so, and fails.
		libraries, _ := exec.CommandContext(t.Context(), "ldd", at).Output()
		for _, m := range library.FindAllStringSubmatch(string(libraries), -1) {
			wanted[m[1]] = true
		}
	}
	var layer Layer
	for _, at := range slices.Sorted(maps.Keys(wanted)) {
		content, err := os.ReadFile(at)
		require.NoError(t, err)
		layer = append(layer, Entry{tar.Header{Name: strings.TrimPrefix(at, "/"), Typeflag: tar.TypeReg, Mode: 0o755}, content})
	}
	return layer
}

var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// Directory is a layer of a directory of this machine, which is to be at another path, or
// at the same if at is empty.
func Directory(t testing.TB, from, at string) Layer {
	t.Helper()
	if at == "" {
		at = from
	}
	var layer Layer
	require.NoError(t, filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var link string
		var content []byte
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			if content, err = os.ReadFile(p); err != nil {
				return err
			}
		case !info.IsDir():
			return nil
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = strings.TrimPrefix(path.Join(at, strings.TrimPrefix(p, from)), "/")
		layer = append(layer, Entry{*h, content})
		return nil
	}))
	return layer
}

// Made is when all images of tests were made: their digests are the same each time.
var made = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Image makes an image of layers, for this machine.
func Image(t testing.TB, config v1.Config, layers ...Layer) v1.Image {
	return ImageFor(t, runtime.GOARCH, config, layers...)
}

// ImageFor makes an image for a kind of machine.
func ImageFor(t testing.TB, arch string, config v1.Config, layers ...Layer) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		Architecture: arch, OS: "linux", Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	require.NoError(t, err)
	for _, l := range layers {
		data := l.archive(t)
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
		require.NoError(t, err)
		image, err = mutate.AppendLayers(image, layer)
		require.NoError(t, err)
	}
	return image
}

// Index makes an index of images by the machines that they are for.
func Index(t testing.TB, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for _, arch := range slices.Sorted(maps.Keys(images)) {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[arch], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index
}

func (l Layer) archive(t testing.TB) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, e := range l {
		e.Size = int64(len(e.Content))
		if e.ModTime.IsZero() {
			e.ModTime = made
		}
		require.NoError(t, archive.WriteHeader(&e.Header))
		_, err := archive.Write(e.Content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}
