package sitetest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/slurm"
)

// project is a group of the second user's.
const project = "hpcproject"

// Account is an ordinary user of this machine.
type Account struct {
	Name, Home string
	UID, GID   int
}

// Users are two ordinary users that may log in by key. They are made if they are not
// there, which needs root. The second is in a group more.
func Users(t testing.TB) (one, other Account) {
	t.Helper()
	require.Zero(t, os.Geteuid(), "this test needs root: it acts as other users")
	accounts := make([]Account, 2)
	for i, name := range []string{slurm.DefaultUser, "hpcother"} {
		a, err := NewAccount(t.Context(), name)
		require.NoError(t, err)
		accounts[i] = a
	}
	require.NoError(t, administer(t.Context(), "groupadd", "--force", project))
	require.NoError(t, administer(t.Context(), "usermod", "--append", "--groups", project, accounts[1].Name))
	return accounts[0], accounts[1]
}

// NewAccount finds or makes an ordinary user without a password. sshd lets nobody in
// whose account looks locked, as that of a new user does.
func NewAccount(ctx context.Context, name string) (Account, error) {
	uid, gid, home, err := slurm.EnsureUser(ctx, name)
	if err != nil {
		return Account{}, err
	}
	if err := administer(ctx, "usermod", "--password", "*", name); err != nil {
		return Account{}, err
	}
	return Account{Name: name, Home: home, UID: uid, GID: gid}, nil
}

// administer runs a program that changes the user database. Other tests may do so at
// the same time, and then it cannot lock that.
func administer(ctx context.Context, name string, args ...string) error {
	const every = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, filepath.Join("/usr/sbin", name), args...).CombinedOutput()
		if err == nil {
			return nil
		}
		if !strings.Contains(string(out), "cannot lock") {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %s", name, ctx.Err(), out)
		case <-time.After(every):
		}
	}
}

// PublicDir is a directory that all users may look into. It goes with the test.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "gangline-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const everybody = 0o755
	require.NoError(t, os.Chmod(dir, everybody))
	return dir
}

// OwnDir is a new directory of a user's.
func (a Account) OwnDir(t testing.TB, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	const ownerOnly = 0o700
	require.NoError(t, os.Mkdir(dir, ownerOnly))
	require.NoError(t, os.Chown(dir, a.UID, a.GID))
	return dir
}

// Program copies this test's program to where all users can run it.
func Program(t testing.TB, dir string) string {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer in.Close() //nolint:errcheck // only read
	const program = 0o755
	out, err := os.OpenFile(filepath.Join(dir, "agent"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, program)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return out.Name()
}

// Reads tells whether a user can read a file.
func (a Account) Reads(t testing.TB, path string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/cat", path)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}}
	return cmd.Run() == nil
}

// Private tests that what a user makes is that user's, and that another cannot read
// it.
func Private(t *testing.T, s site.Site, dir string, mine, other Account) {
	t.Helper()
	user, err := s.User(t.Context())
	require.NoError(t, err)
	require.Equal(t, mine.Name, user.Name)
	require.Equal(t, mine.UID, user.UID)
	require.Equal(t, mine.Home, user.Home)
	// Where all may look into the directory it is the file's own mode that counts,
	path := filepath.Join(dir, "secret")
	require.NoError(t, s.Write(t.Context(), path, []byte("x"), ownerOnly))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, mine.UID, info.Sys().(*syscall.Stat_t).Uid)
	require.EqualValues(t, mine.GID, info.Sys().(*syscall.Stat_t).Gid)
	require.True(t, mine.Reads(t, path))
	require.False(t, other.Reads(t, path))
	// and in an allocation the directory's.
	root := spool.Root(filepath.Join(dir, "spool"))
	must(t, s, "/bin/mkdir", "-m", "755", string(root))
	require.NoError(t, s.CreateAllocation(t.Context(), root, spool.Gang{Allocation: "pi-1", Slots: make([]spool.Slot, 1)}))
	const everybody = 0o644
	status := root.Dir("pi-1").Status(0)
	require.NoError(t, s.Write(t.Context(), status, []byte("{}"), everybody))
	require.True(t, mine.Reads(t, status))
	require.False(t, other.Reads(t, status))
}
