package unpack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/unpack"
)

func dir(name string, mode int64) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}
}

func file(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(name))}
}

func link(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}

func hard(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}

func archive(t *testing.T, headers []tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		if h.Size > 0 {
			_, err := w.Write([]byte(h.Name)[:h.Size])
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return &out
}

// listing is what a tree holds: plain files with their content (the name that they had in
// the archive), links with their target.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		name, err := filepath.Rel(root, p)
		require.NoError(t, err)
		switch {
		case d.IsDir():
			found[name] = "dir"
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			require.NoError(t, err)
			found[name] = "-> " + target
		default:
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			found[name] = string(data)
		}
		return nil
	}))
	return found
}

func TestLayersBecomeATree(t *testing.T) {
	for sentence, tc := range map[string]struct {
		layers [][]tar.Header
		want   map[string]string
		err    string
	}{
		"directories that are not named are made": {
			layers: [][]tar.Header{{file("a/b/c")}},
			want:   map[string]string{"a": "dir", "a/b": "dir", "a/b/c": "a/b/c"},
		},
		"a later layer replaces a file": {
			layers: [][]tar.Header{{file("./a")}, {file("a")}},
			want:   map[string]string{"a": "a"},
		},
		"a whiteout removes a file and a directory": {
			layers: [][]tar.Header{{file("a"), file("d/e/f"), file("d/g")}, {file(".wh.a"), file("d/.wh.e")}},
			want:   map[string]string{"d": "dir", "d/g": "d/g"},
		},
		"a whiteout of what there is not does nothing": {
			layers: [][]tar.Header{{file("a")}, {file(".wh.b"), file("c/.wh.d")}},
			want:   map[string]string{"a": "a", "c": "dir"},
		},
		"a whiteout leaves what its own layer brings": {
			layers: [][]tar.Header{{file("d/old"), file("d/sub/old")}, {file("d/new"), file("d/sub/new"), file(".wh.d")}},
			want:   map[string]string{"d": "dir", "d/new": "d/new", "d/sub": "dir", "d/sub/new": "d/sub/new"},
		},
		"an opaque directory shows only what its own layer brings": {
			layers: [][]tar.Header{{file("d/old"), file("d/sub/old")}, {file("d/sub/new"), file("d/.wh..wh..opq"), file("d/new")}},
			want:   map[string]string{"d": "dir", "d/new": "d/new", "d/sub": "dir", "d/sub/new": "d/sub/new"},
		},
		"a directory in place of a file, and the other way round": {
			layers: [][]tar.Header{{file("a"), file("b/c")}, {dir("a", 0o755), file("a/x"), file("b")}},
			want:   map[string]string{"a": "dir", "a/x": "a/x", "b": "b"},
		},
		"a directory in place of a link to one is a directory": {
			layers: [][]tar.Header{{dir("real", 0o755), link("a", "real")}, {dir("a", 0o755), file("a/x")}},
			want:   map[string]string{"real": "dir", "a": "dir", "a/x": "a/x"},
		},
		"a path through a link leads where it leads inside": {
			layers: [][]tar.Header{{dir("run", 0o755), dir("var", 0o755), link("var/run", "/run"), link("lib", "usr/lib")}, {file("var/run/x"), file("lib/y")}},
			want:   map[string]string{"run": "dir", "run/x": "var/run/x", "var": "dir", "var/run": "-> /run", "lib": "-> usr/lib", "usr": "dir", "usr/lib": "dir", "usr/lib/y": "lib/y"},
		},
		"a whiteout through a link too": {
			layers: [][]tar.Header{{file("run/x"), link("r", "/run")}, {file("r/.wh.x")}},
			want:   map[string]string{"run": "dir", "r": "-> /run"},
		},
		"an opaque directory behind a link keeps its layer's files": {
			layers: [][]tar.Header{{file("run/old"), link("r", "/run")}, {file("r/new"), file("run/.wh..wh..opq")}},
			want:   map[string]string{"run": "dir", "run/new": "r/new", "r": "-> /run"},
		},
		"hard links": {
			layers: [][]tar.Header{{file("a"), hard("d/b", "/a")}, {hard("c", "d/b")}},
			want:   map[string]string{"a": "a", "d": "dir", "d/b": "a", "c": "a"},
		},
		"a hard link to itself": {
			layers: [][]tar.Header{{file("a"), hard("a", "./a")}},
			want:   map[string]string{"a": "a"},
		},
		"a file in place of a hard link leaves the other": {
			layers: [][]tar.Header{{file("a"), hard("b", "a")}, {file("b")}},
			want:   map[string]string{"a": "a", "b": "b"},
		},
		"a file in place of a link does not follow it": {
			layers: [][]tar.Header{{file("a"), link("b", "a")}, {file("b")}},
			want:   map[string]string{"a": "a", "b": "b"},
		},
		"devices, pipes and unknown things are left out": {
			layers: [][]tar.Header{{
				{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, {Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8},
				{Name: "pipe", Typeflag: tar.TypeFifo}, {Name: "what", Typeflag: 'Z'}, file("a"),
			}},
			want: map[string]string{"a": "a"},
		},
		"names that lead out stay inside": {
			layers: [][]tar.Header{{file("../../x"), file("/y"), hard("z", "../../x")}},
			want:   map[string]string{"x": "../../x", "y": "/y", "z": "../../x"},
		},
		"links that lead out stay inside": {
			layers: [][]tar.Header{{link("up", "../../.."), link("out", "/etc")}, {file("up/x"), file("out/y"), hard("z", "out/y")}},
			want:   map[string]string{"up": "-> ../../..", "x": "up/x", "out": "-> /etc", "etc": "dir", "etc/y": "out/y", "z": "out/y"},
		},
		"links that lead in circles": {
			layers: [][]tar.Header{{link("a", "b"), link("b", "a"), file("a/x")}},
			err:    "too many links",
		},
		"a hard link to nothing": {
			layers: [][]tar.Header{{hard("a", "none")}},
			err:    "no such file",
		},
		"a file as a directory": {
			layers: [][]tar.Header{{file("a"), file("a/b")}},
			err:    "is no directory",
		},
		"a whiteout of no name": {
			layers: [][]tar.Header{{file("d/.wh..")}},
			err:    "a whiteout of no name",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			outside := t.TempDir()
			root := filepath.Join(outside, "in/the/tree")
			require.NoError(t, os.MkdirAll(root, 0o700))
			tree, err := unpack.Open(root, false)
			require.NoError(t, err)
			for _, l := range tc.layers {
				if err = tree.Layer(t.Context(), archive(t, l)); err != nil {
					break
				}
			}
			if tc.err == "" {
				require.NoError(t, err)
				assert.Equal(t, tc.want, listing(t, root))
			} else {
				assert.ErrorContains(t, err, tc.err)
			}
			closeErr := tree.Close()
			assert.True(t, closeErr == nil || tc.err != "", closeErr)
			above, err := os.ReadDir(outside)
			require.NoError(t, err)
			assert.Len(t, above, 1, "nothing is written outside")
			require.NoError(t, os.RemoveAll(root), "it can be removed")
		})
	}
}

func TestModesAndTimes(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	headers := []tar.Header{
		dir("closed", 0o555), file("closed/a"), dir("none", 0), dir("tmp", 0o1777),
		{Name: "setuid", Typeflag: tar.TypeReg, Mode: 0o6755}, {Name: "secret", Typeflag: tar.TypeReg, Mode: 0o600},
		{Name: "unreadable", Typeflag: tar.TypeReg, Mode: 0}, {Name: "readonly", Typeflag: tar.TypeReg, Mode: 0o444, Uid: 12345, Gid: 54321},
	}
	for i := range headers {
		headers[i].ModTime = at
	}
	for sentence, tc := range map[string]struct {
		shared bool
		want   map[string]fs.FileMode
	}{
		"one's own": {false, map[string]fs.FileMode{
			"closed": 0o755, "none": 0o700, "tmp": 0o777 | fs.ModeSticky, "setuid": 0o755, "secret": 0o600, "unreadable": 0o400, "readonly": 0o444,
		}},
		"a group's": {true, map[string]fs.FileMode{
			"closed": 0o775, "none": 0o770, "tmp": 0o777 | fs.ModeSticky, "setuid": 0o775, "secret": 0o660, "unreadable": 0o440, "readonly": 0o444,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			root := t.TempDir()
			tree, err := unpack.Open(root, tc.shared)
			require.NoError(t, err)
			require.NoError(t, tree.Layer(t.Context(), archive(t, headers)))
			require.NoError(t, tree.Close())
			for name, want := range tc.want {
				info, err := os.Stat(filepath.Join(root, name))
				require.NoError(t, err)
				assert.Equal(t, want, info.Mode()&^fs.ModeDir, name)
				assert.True(t, at.Equal(info.ModTime()), name)
			}
		})
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	tree, err := unpack.Open(t.TempDir(), false)
	require.NoError(t, err)
	defer tree.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, tree.Layer(ctx, archive(t, []tar.Header{file("a")})), context.Canceled)
}
