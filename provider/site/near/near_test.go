package near_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/near"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/provider/spool"
)

// TestMain makes this program a gateway where it is told to be one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == near.Subcommand {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := gateway.Serve(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func connect(t *testing.T, start gateway.Start, o gateway.Options) *gateway.Client {
	t.Helper()
	stream, err := start(t.Context())
	require.NoError(t, err)
	c, err := gateway.New(t.Context(), stream, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTheSitesOfTwoUsers(t *testing.T) {
	t.Setenv("KUBECONFIG", "/secret")
	one, other := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	agent := sitetest.Program(t, dir)
	for name, start := range map[string]func(near.Config) gateway.Start{"directly": near.Directly, "by sudo": near.BySudo} {
		for i, user := range []sitetest.Account{one, other} {
			t.Run(name+" as "+user.Name, func(t *testing.T) {
				t.Parallel()
				c := connect(t, start(near.Config{User: user.Name, Agent: agent, Sudo: sitetest.Sudo(t, t.TempDir())}), gateway.Options{})
				public := user.OwnDir(t, dir, strings.ReplaceAll(t.Name(), "/", "-"))
				const everybody = 0o755
				require.NoError(t, os.Chmod(public, everybody))
				sitetest.Private(t, c, public, user, []sitetest.Account{other, one}[i])

				groups, err := exec.CommandContext(t.Context(), "/usr/bin/id", "-G", user.Name).Output()
				require.NoError(t, err)
				r, err := c.Run(t.Context(), site.Command{Argv: []string{"/usr/bin/id", "-G"}})
				require.NoError(t, err)
				assert.Equal(t, string(groups), string(r.Stdout), "all groups of the user's, and none of ours")

				r, err = c.Run(t.Context(), site.Command{Argv: []string{"/bin/sh", "-c", "tr '\\0' '\\n' </proc/$PPID/environ; ls -l /proc/$PPID/fd"}})
				require.NoError(t, err)
				assert.Contains(t, string(r.Stdout), "HOME="+user.Home+"\n")
				assert.Contains(t, string(r.Stdout), "USER="+user.Name+"\n")
				assert.NotContains(t, string(r.Stdout), "KUBECONFIG")
				assert.NotContains(t, string(r.Stdout), "/dev/tty")
			})
		}
	}
}

func TestAnotherUsersWholeSite(t *testing.T) {
	user, _ := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	c := connect(t, near.Directly(near.Config{User: user.Name, Agent: sitetest.Program(t, dir)}), gateway.Options{})
	sitetest.Run(t, c, user.OwnDir(t, dir, "own"))
}

func TestWhatCannotBeStarted(t *testing.T) {
	user, _ := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	hidden := filepath.Join(dir, "hidden")
	const ownerOnly = 0o700
	require.NoError(t, os.Mkdir(hidden, ownerOnly))
	for sentence, tc := range map[string]struct {
		config near.Config
		start  func(near.Config) gateway.Start
		want   string
	}{
		"root is refused":                 {near.Config{User: "root", Agent: "/bin/true"}, near.Directly, "root"},
		"root is refused by sudo as well": {near.Config{User: "root", Agent: "/bin/true"}, near.BySudo, "root"},
		"nobody by that name":             {near.Config{User: "no-such-user", Agent: "/bin/true"}, near.Directly, "no-such-user"},
		"an agent that is not there":      {near.Config{User: user.Name, Agent: filepath.Join(dir, "absent")}, near.Directly, "no such file"},
		"an agent out of the user's reach": {near.Config{User: user.Name, Agent: sitetest.Program(t, hidden)}, near.Directly,
			"executable for " + user.Name},
		"a program that is no agent": {near.Config{User: user.Name, Agent: "/bin/ls"}, near.Directly, "exit status 2"},
		"sudo's own words":           {near.Config{User: user.Name, Agent: "/bin/true", Sudo: words(t, dir)}, near.BySudo, "sudo: a password is required"},
		"a path that is not whole":   {near.Config{User: user.Name, Agent: "agent"}, near.Directly, "not absolute"},
	} {
		t.Run(sentence, func(t *testing.T) {
			stream, err := tc.start(tc.config)(t.Context())
			if err == nil {
				_, err = gateway.New(t.Context(), stream, gateway.Options{})
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

// words is a sudo that refuses.
func words(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "refusing")
	const program = 0o755
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n"), program))
	return path
}

func TestAKilledGatewayOfAnotherUser(t *testing.T) {
	user, _ := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	own := user.OwnDir(t, dir, "own")
	lock := filepath.Join(own, "lock")
	k := gateway.Keep(near.Directly(near.Config{User: user.Name, Agent: sitetest.Program(t, dir)}), gateway.KeepOptions{
		Options: gateway.Options{Lock: lock}, First: 10 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	r, err := k.Run(t.Context(), site.Command{Argv: []string{"/bin/sh", "-c", "echo $PPID"}})
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
	require.NoError(t, err)
	process, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, process.Kill())
	var after int
	require.Eventually(t, func() bool {
		r, err := k.Run(t.Context(), site.Command{Argv: []string{"/bin/sh", "-c", "echo $PPID"}})
		if err != nil {
			assert.ErrorIs(t, err, site.ErrUnreachable)
			return false
		}
		after, err = strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
		return err == nil && after != pid
	}, 20*time.Second, 5*time.Millisecond)
	assert.False(t, sitetest.Running(pid))

	require.NoError(t, k.Close())
	assert.Eventually(t, func() bool { return !sitetest.Running(after) }, 20*time.Second, 5*time.Millisecond, "it ends with its client")
	free, err := spool.Lock(t.Context(), lock, nil)
	require.NoError(t, err)
	require.NoError(t, free.Close())
}
