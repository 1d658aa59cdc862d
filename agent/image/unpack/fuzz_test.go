package unpack_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/image/unpack"
)

// outside stands in a fuzzer's names for the directory that is around the tree.
const outside = "@"

// FuzzLayer looks that nothing that a layer's names and links can say is written outside of
// the tree.
func FuzzLayer(f *testing.F) {
	f.Add("a", "../b", byte(tar.TypeSymlink), "a/c", "x", byte(tar.TypeReg))
	f.Add("a", "/", byte(tar.TypeSymlink), "a/../../c", "a", byte(tar.TypeLink))
	f.Add("a", "/", byte(tar.TypeSymlink), "a/gangline-was-here", "", byte(tar.TypeReg))
	f.Add("a", outside, byte(tar.TypeSymlink), "a/c", "", byte(tar.TypeReg))
	f.Add("a", "../../..", byte(tar.TypeSymlink), "a", "", byte(tar.TypeDir))
	f.Add("a", outside, byte(tar.TypeSymlink), "a/.wh.canary", "", byte(tar.TypeReg))
	f.Add("a", outside+"/canary", byte(tar.TypeLink), "a", "", byte(tar.TypeReg))
	f.Add(outside+"/x", "", byte(tar.TypeReg), "../../x", "", byte(tar.TypeReg))
	f.Add(".wh...", "", byte(tar.TypeReg), ".wh..wh..opq", "", byte(tar.TypeReg))
	f.Fuzz(func(t *testing.T, name1, link1 string, type1 byte, name2, link2 string, type2 byte) {
		p := newPen(t)
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range []tar.Header{{Name: name1, Linkname: link1, Typeflag: type1}, {Name: name2, Linkname: link2, Typeflag: type2}} {
			h.Name, h.Linkname = strings.ReplaceAll(h.Name, outside, p.outside), strings.ReplaceAll(h.Linkname, outside, p.outside)
			if w.WriteHeader(&h) != nil {
				return
			}
		}
		if w.Close() == nil {
			p.unpack(out.Bytes())
		}
	})
}

// FuzzArchive is the same for what is no tar archive, or a strange one: with contents, sparse
// files, and headers that contradict themselves.
func FuzzArchive(f *testing.F) {
	seed := func(headers ...tar.Header) []byte {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range headers {
			require.NoError(f, w.WriteHeader(&h))
			_, err := w.Write([]byte(h.Name)[:h.Size])
			require.NoError(f, err)
		}
		require.NoError(f, w.Close())
		return out.Bytes()
	}
	f.Add(seed(file("etc/passwd"), dir("etc", 0o555), link("lib", "/usr/lib"), hard("h", "etc/passwd")))
	f.Add(seed(file("d/a"), file(".wh.d"), file("d/.wh..wh..opq"), tar.Header{Name: "n", Typeflag: tar.TypeChar}))
	f.Add(seed(tar.Header{Name: "long/" + strings.Repeat("n", 300), Typeflag: tar.TypeReg, Mode: 0o7777, PAXRecords: map[string]string{"SCHILY.xattr.a": "b"}}))
	f.Add(sparse("holes", 1<<16))
	f.Add(sparse("huge", 1<<60))
	f.Fuzz(func(t *testing.T, data []byte) {
		if written(data) > 1<<20 && !refusable(data) {
			return // all is well, and takes long
		}
		newPen(t).unpack(data)
	})
}

// A kilobyte of archive can stand for a file of any size, and so fill any disk.
func TestSparseFilesAreBounded(t *testing.T) {
	for name, archive := range map[string][]byte{
		"one file":  sparse("huge", 1<<60),
		"together":  append(sparse("a", 1<<16)[:512], sparse("b", 1<<62)...),
		"wrapping":  append(sparse("a", 1<<16)[:512], sparse("b", 1<<63-1)...),
		"many bits": sparse("huge", 1<<63-1),
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree, err := unpack.Open(root, false)
			require.NoError(t, err)
			assert.ErrorContains(t, tree.Layer(t.Context(), bytes.NewReader(archive)), "sparse")
			require.NoError(t, tree.Close())
			assert.LessOrEqual(t, tree.Bytes(), int64(1<<16))
		})
	}
	root := t.TempDir()
	tree, err := unpack.Open(root, false)
	require.NoError(t, err)
	require.NoError(t, tree.Layer(t.Context(), bytes.NewReader(sparse("holes", 1<<16))))
	require.NoError(t, tree.Close())
	content, err := os.ReadFile(filepath.Join(root, "holes"))
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 1<<16), content)
}

// sparse is an archive of one file that is all hole, in GNU's old format.
func sparse(name string, size uint64) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x00")
	copy(h[108:], "0000000\x00")
	copy(h[116:], "0000000\x00")
	copy(h[124:], "00000000000\x00") // nothing of it is in the archive
	copy(h[136:], "00000000000\x00")
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	number := func(at int, n uint64) { // in base 256
		h[at] = 0x80
		for i := range 8 {
			h[at+11-i] = byte(n >> (8 * i)) //nolint:gosec // one byte of it
		}
	}
	number(386, size) // one piece, at the end, of no length
	number(398, 0)
	number(483, size)
	copy(h[148:], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], []byte{'0', byte('0' + sum>>12&7), byte('0' + sum>>9&7), byte('0' + sum>>6&7), byte('0' + sum>>3&7), byte('0' + sum&7), 0, ' '}) //nolint:gosec // digits
	return append(h, make([]byte, 1024)...)
}

// written is how much an archive says is in it.
func written(data []byte) int64 {
	archive, total := tar.NewReader(bytes.NewReader(data)), int64(0)
	for {
		h, err := archive.Next()
		if err != nil {
			return total
		}
		if h.Size > 1<<40-total {
			return 1 << 40
		}
		total += h.Size
	}
}

// refusable tells that an archive begins with a sparse file that no image has.
func refusable(data []byte) bool {
	h, err := tar.NewReader(bytes.NewReader(data)).Next()
	return err == nil && h.Typeflag == tar.TypeGNUSparse && h.Size > 1<<40
}

// pen is a tree with something around it.
type pen struct {
	t             *testing.T
	outside, root string
}

func newPen(t *testing.T) pen {
	p := pen{t: t, outside: t.TempDir()}
	p.root = filepath.Join(p.outside, "two", "up", "tree")
	require.NoError(t, os.MkdirAll(p.root, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(p.outside, "canary"), []byte("sings"), 0o600))
	return p
}

// unpack has a layer unpacked, and sees that only the tree has changed, and holds only what a
// tree may.
func (p pen) unpack(layer []byte) {
	t := p.t
	before := p.atRoot(layer)
	tree, err := unpack.Open(p.root, false)
	require.NoError(t, err)
	_ = tree.Layer(t.Context(), bytes.NewReader(layer)) // an error is as good
	_ = tree.Close()
	require.Equal(t, before, p.atRoot(layer), "nothing is made at /")
	around := map[string]bool{}
	require.NoError(t, filepath.WalkDir(p.outside, func(at string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if !strings.HasPrefix(at, p.root+"/") {
			around[strings.TrimPrefix(at, p.outside)] = true
			return nil
		}
		info, err := e.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode()&^(fs.ModePerm|fs.ModeDir|fs.ModeSymlink|fs.ModeSticky), "%s has the mode %s", at, info.Mode())
		if info.IsDir() {
			require.EqualValues(t, 0o700, info.Mode()&0o700, "%s can be removed again", at)
		}
		return nil
	}))
	require.Equal(t, map[string]bool{"": true, "/canary": true, "/two": true, "/two/up": true, "/two/up/tree": true}, around)
	text, err := os.ReadFile(filepath.Join(p.outside, "canary"))
	require.NoError(t, err)
	require.Equal(t, "sings", string(text))
	require.NoError(t, os.RemoveAll(p.root))
}

// atRoot tells which of a layer's names there are at /.
func (p pen) atRoot(layer []byte) map[string]bool {
	there := map[string]bool{}
	archive := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := archive.Next()
		if err != nil {
			return there
		}
		for _, name := range []string{path.Clean("/" + h.Name), "/" + path.Base(path.Clean("/"+h.Name))} {
			_, err := os.Lstat(name)
			there[name] = err == nil
		}
	}
}
