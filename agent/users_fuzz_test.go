package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzUsers: whatever an image has for its users and groups, a process is who it is by its
// number, has one home, and the image's own lines stay.
func FuzzUsers(f *testing.F) {
	for _, table := range []string{
		"root:x:0:0:root:/root:/bin/sh\nada:x:1001:1001::/home/ada:/bin/sh\n", "x:x:1001:1:g:/a", "::1001:::/\n", ":::\n1001\n", "a:b:1001:c:d:", "\xff:\x00:1001:1:e:/h\r\n", "",
	} {
		f.Add(table, int64(1001), int64(100), "ada")
	}
	f.Fuzz(func(t *testing.T, table string, uid, gid int64, name string) {
		if strings.ContainsAny(name, ":\n") {
			return // names are the site's
		}
		const home = "/home/of/the/pod"
		for _, asked := range []bool{false, true} {
			users := withUser(table, name, who{uid: uid, gid: gid, home: home}, asked)
			assert.True(t, strings.HasSuffix(users, table))
			theirs := homeIn(table, uid)
			assert.NotContains(t, theirs, ":")
			assert.NotContains(t, theirs, "\n")
			if asked && theirs != "" {
				assert.Equal(t, table, users, "who was asked for is in the image")
				continue
			}
			assert.Equal(t, home, homeIn(users, uid))
			own, _, _ := strings.Cut(users, "\n")
			assert.Len(t, strings.Split(own, ":"), 7, own)
		}
		groups := withGroup(table, name, gid)
		assert.True(t, strings.HasSuffix(groups, table))
		assert.Equal(t, groups, withGroup(groups, name, gid), "a group that is known is not named again")
	})
}

// FuzzTables: a file of an image is read within the image, up to a bound, and only if it is
// one.
func FuzzTables(f *testing.F) {
	f.Add("", "root:x:0:0::/root:/bin/sh\n")
	f.Add("/etc/shadow", "")
	f.Add("../../secret", "")
	f.Add("etc", "")
	f.Add("passwd", "a link to itself")
	f.Fuzz(func(t *testing.T, link, content string) {
		around := t.TempDir()
		tree := filepath.Join(around, "two", "tree")
		require.NoError(t, os.MkdirAll(filepath.Join(tree, "etc"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(around, "secret"), []byte("secret"), 0o600))
		at := filepath.Join(tree, passwdFile)
		if link == "" {
			require.NoError(t, os.WriteFile(at, []byte(content), 0o600))
			assert.Equal(t, content[:min(len(content), mostTable)], readIn(tree, passwdFile))
			return
		}
		if os.Symlink(link, at) != nil {
			return // no name of a file's
		}
		assert.Empty(t, readIn(tree, passwdFile), "there is no other file in the image")
	})
}
