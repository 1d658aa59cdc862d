package sitetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// Run tests a site. dir is an empty directory of its user's, which this process can
// look into.
func Run(t *testing.T, s site.Site, dir string) {
	for sentence, test := range map[string]func(t *testing.T, s site.Site, dir string){
		"files are replaced as a whole":           write,
		"only plain files are read":               read,
		"what has changed is read in one go":      changed,
		"many files are read in few goes":         readAll,
		"a report that is too large is not read":  tooLarge,
		"a log is read and followed":              follow,
		"nothing outside of a root is read":       inside,
		"an allocation comes and goes as a whole": allocation,
		"a command's end is no error":             run,
		"a command gets what it is given":         given,
		"a command is ended in time":              timeout,
		"a locked command outlives its caller":    locked,
		"too much output is an error":             tooMuch,
		"programs are found":                      find,
		"a directory is listed":                   list,
		"JSON goes to and fro":                    jsonFiles,
		"errors are the operating system's":       systemErrors,
	} {
		t.Run(sentence, func(t *testing.T) {
			// Made by the user, and so the user's.
			own := filepath.Join(dir, strings.ReplaceAll(sentence, " ", "-"))
			must(t, s, "/bin/mkdir", own)
			test(t, s, own)
		})
	}
}

// must runs a command that succeeds.
func must(t *testing.T, s site.Site, argv ...string) string {
	t.Helper()
	r, err := s.Run(t.Context(), site.Command{Argv: argv})
	require.NoError(t, err)
	require.Zero(t, r.Exit, "%s: %s", argv, r.Stderr)
	return string(r.Stdout)
}

const ownerOnly = 0o600

func write(t *testing.T, s site.Site, dir string) {
	path := filepath.Join(dir, "file")
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	for _, data := range [][]byte{[]byte("one"), big, {}} {
		require.NoError(t, s.Write(t.Context(), path, data, ownerOnly))
		changes, err := s.Changed(t.Context(), []site.Watched{{Path: path}})
		require.NoError(t, err)
		require.Len(t, changes, 1)
		require.NoError(t, changes[0].Err)
		assert.True(t, bytes.Equal(data, changes[0].Data))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(ownerOnly), info.Mode())
	user, err := s.User(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, user.UID, info.Sys().(*syscall.Stat_t).Uid, "files are the user's")
	const program = 0o700
	require.NoError(t, s.Write(t.Context(), path, nil, program))
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(program), info.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is left beside it")
}

func read(t *testing.T, s site.Site, dir string) {
	must(t, s, "/bin/ln", "-s", "/etc/passwd", filepath.Join(dir, "link"))
	must(t, s, "/usr/bin/mkfifo", filepath.Join(dir, "pipe"))
	must(t, s, "/usr/bin/truncate", "-s", "65M", filepath.Join(dir, "huge"))
	for name, want := range map[string]error{"link": site.ErrNotPlain, "pipe": site.ErrNotPlain, ".": site.ErrNotPlain, "huge": site.ErrTooLarge} {
		changes, err := s.Changed(t.Context(), []site.Watched{{Path: filepath.Join(dir, name)}})
		require.NoError(t, err)
		require.Len(t, changes, 1, name)
		assert.ErrorIs(t, changes[0].Err, want, name)
	}
}

func changed(t *testing.T, s site.Site, dir string) {
	paths := []string{"a", "b", "absent", "link"}
	files := make([]site.Watched, len(paths))
	for i, name := range paths {
		files[i].Path = filepath.Join(dir, name)
	}
	look := func() map[string]site.Change {
		t.Helper()
		changes, err := s.Changed(t.Context(), files)
		require.NoError(t, err)
		byName := map[string]site.Change{}
		for _, c := range changes {
			byName[paths[c.Index]] = c
			files[c.Index].Stamp = c.Stamp
		}
		return byName
	}
	assert.Empty(t, look(), "files that were never there have not changed")
	put := func(name, text string) {
		t.Helper()
		require.NoError(t, s.Write(t.Context(), filepath.Join(dir, name), []byte(text), ownerOnly))
	}
	put("a", "1")
	put("b", "1")
	got := look()
	require.Len(t, got, 2)
	assert.Equal(t, "1", string(got["a"].Data))
	info, err := os.Stat(files[0].Path)
	require.NoError(t, err)
	assert.True(t, info.ModTime().Equal(files[0].Stamp.Time()))
	assert.Empty(t, look())

	put("b", "2") // of the same size, and now of the same time
	must(t, s, "/usr/bin/touch", "-r", files[0].Path, files[1].Path)
	got = look()
	require.Len(t, got, 1)
	assert.Equal(t, "2", string(got["b"].Data))

	must(t, s, "/bin/rm", files[0].Path)
	must(t, s, "/bin/ln", "-s", "/etc/passwd", files[3].Path)
	got = look()
	require.Len(t, got, 2)
	assert.NoError(t, got["a"].Err)
	assert.Zero(t, got["a"].Stamp, "it is gone")
	assert.ErrorIs(t, got["link"].Err, site.ErrNotPlain)
}

func readAll(t *testing.T, s site.Site, dir string) {
	text := []byte(`"` + strings.Repeat("x", 7<<20) + `"`) // two to a round trip
	paths, into := []string{filepath.Join(dir, "absent")}, []any{new(string)}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		path := filepath.Join(dir, name)
		require.NoError(t, s.Write(t.Context(), path, text, ownerOnly))
		paths, into = append(paths, path), append(into, new(string))
	}
	changes, err := s.Changed(t.Context(), []site.Watched{{Path: paths[1]}, {Path: paths[2]}, {Path: paths[3]}})
	require.NoError(t, err)
	assert.Len(t, changes, 2, "the rest is for the next round trip")
	stamps, err := site.ReadAllJSON(t.Context(), s, paths, into)
	require.NoError(t, err)
	assert.Zero(t, stamps[0], "one that is not there")
	for i, stamp := range stamps[1:] {
		assert.EqualValues(t, len(text), stamp.Size)
		assert.Len(t, *into[i+1].(*string), 7<<20)
	}
}

func tooLarge(t *testing.T, s site.Site, dir string) {
	// It takes no room on the disk, and would take all of it in memory.
	path := filepath.Join(dir, "status.json")
	must(t, s, "/usr/bin/truncate", "-s", fmt.Sprint(site.MaxFile), path)
	changes, err := s.Changed(t.Context(), []site.Watched{site.Watch(path, &spool.Status{})})
	require.NoError(t, err)
	require.Len(t, changes, 1)
	assert.ErrorIs(t, changes[0].Err, site.ErrTooLarge)
	assert.Empty(t, changes[0].Data)
	_, err = site.ReadJSON(t.Context(), s, path, &spool.Status{})
	assert.ErrorIs(t, err, site.ErrTooLarge)
	_, err = site.ReadAllJSON(t.Context(), s, []string{path}, []any{&spool.Ended{}})
	assert.ErrorIs(t, err, site.ErrTooLarge)

	must(t, s, "/usr/bin/truncate", "-s", fmt.Sprint(spool.MaxReport), path)
	changes, err = s.Changed(t.Context(), []site.Watched{site.Watch(path, &spool.Status{})})
	require.NoError(t, err)
	require.Len(t, changes, 1)
	assert.NoError(t, changes[0].Err)
	assert.Len(t, changes[0].Data, spool.MaxReport)
}

func follow(t *testing.T, s site.Site, dir string) {
	const everybody = 0o644
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0.log"), []byte("first\n"), everybody))
	logs := site.Dir{Files: s, Root: filepath.Dir(dir), Path: filepath.Base(dir)}
	names, err := logs.Names(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"0.log"}, names)
	f, err := logs.Open(t.Context(), "0.log")
	require.NoError(t, err)
	assert.EqualValues(t, 6, f.Size())
	text := make([]byte, 3)
	n, err := f.ReadAt(text, 2)
	require.NoError(t, err)
	assert.Equal(t, "rst", string(text[:n]))
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	require.NoError(t, err)
	assert.Equal(t, "first\n", string(all))

	log, err := os.OpenFile(filepath.Join(dir, "0.log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	long := strings.Repeat("more\n", 1<<18) // longer than one piece
	_, err = log.WriteString(long)
	require.NoError(t, err)
	require.NoError(t, log.Close())
	if f, err = logs.Open(t.Context(), "0.log"); assert.NoError(t, err) {
		all, err = io.ReadAll(io.NewSectionReader(f, 6, 1<<40))
		require.NoError(t, err)
		assert.True(t, long == string(all))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), nil, everybody))
	require.NoError(t, os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "0.log")))
	_, err = f.ReadAt(text, 1<<20)
	assert.ErrorIs(t, err, syscall.ESTALE, "it is another file by now")
	_, err = logs.Open(t.Context(), "1.log")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	logs.Path = "absent"
	_, err = logs.Names(t.Context())
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

func inside(t *testing.T, s site.Site, dir string) {
	must(t, s, "/bin/mkdir", filepath.Join(dir, "logs"))
	must(t, s, "/bin/ln", "-s", "/etc", filepath.Join(dir, "etc"))
	must(t, s, "/bin/ln", "-s", "/etc/passwd", filepath.Join(dir, "logs", "0.log"))
	must(t, s, "/usr/bin/mkfifo", filepath.Join(dir, "logs", "1.log"))
	for _, name := range []string{"etc/passwd", "../../../etc/passwd", "/etc/passwd", "logs/0.log", "logs/1.log"} {
		_, err := s.ReadAt(t.Context(), dir, name, 0, 10)
		assert.Error(t, err, name)
	}
	for _, name := range []string{"etc", "..", "/etc", "logs/1.log"} {
		_, err := s.Names(t.Context(), dir, name)
		assert.Error(t, err, name)
	}
}

func allocation(t *testing.T, s site.Site, dir string) {
	root := spool.Root(filepath.Join(dir, "spool"))
	gang := spool.Gang{Allocation: "pi-1", Node: "hpc", Slots: make([]spool.Slot, 2)}
	require.NoError(t, s.CreateAllocation(t.Context(), root, gang))
	assert.ErrorIs(t, s.CreateAllocation(t.Context(), root, gang), fs.ErrExist, "a name is never used twice")
	info, err := os.Stat(string(root.Dir("pi-1")))
	require.NoError(t, err)
	assert.Equal(t, fs.ModeDir|0o700, info.Mode())
	require.NoError(t, s.Sweep(t.Context(), root, "hpc"))
	entries, err := s.List(t.Context(), root.Gangs())
	require.NoError(t, err)
	assert.Equal(t, []site.Entry{{Name: "pi-1", Dir: true}}, entries)
	require.NoError(t, s.RemoveAllocation(t.Context(), root.Dir("pi-1")))
	assert.NoDirExists(t, string(root.Dir("pi-1")))
}

func list(t *testing.T, s site.Site, dir string) {
	entries, err := s.List(t.Context(), filepath.Join(dir, "absent"))
	assert.NoError(t, err)
	assert.Empty(t, entries)
	must(t, s, "/usr/bin/touch", filepath.Join(dir, "file"))
	must(t, s, "/bin/mkdir", filepath.Join(dir, "sub"))
	entries, err = s.List(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, []site.Entry{{Name: "file"}, {Name: "sub", Dir: true}}, entries)
}

func jsonFiles(t *testing.T, s site.Site, dir string) {
	path := filepath.Join(dir, "gang.json")
	require.NoError(t, site.WriteJSON(t.Context(), s, path, spool.Gang{Allocation: "a"}))
	var g spool.Gang
	found, err := site.ReadJSON(t.Context(), s, path, &g)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "a", g.Allocation)
	require.NoError(t, s.Write(t.Context(), path, []byte("{"), ownerOnly))
	_, err = site.ReadJSON(t.Context(), s, path, &g)
	assert.ErrorAs(t, err, new(*json.SyntaxError))
	found, err = site.ReadJSON(t.Context(), s, path+"-absent", &g)
	assert.NoError(t, err)
	assert.False(t, found)
}

func systemErrors(t *testing.T, s site.Site, dir string) {
	err := s.Write(t.Context(), filepath.Join(dir, "absent", "file"), nil, ownerOnly)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, err, syscall.ENOENT)
	assert.False(t, errors.Is(err, site.ErrUnreachable))
	must(t, s, "/usr/bin/touch", filepath.Join(dir, "file"))
	assert.ErrorIs(t, s.Write(t.Context(), filepath.Join(dir, "file", "below"), nil, ownerOnly), syscall.ENOTDIR)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Run(ctx, site.Command{Argv: []string{"/bin/true"}})
	assert.ErrorIs(t, err, context.Canceled)
}
