package sitetest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
)

// patience is how long is waited for what takes moments.
const patience = 20 * time.Second

// shell is a command line for a shell, for tests only.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func run(t *testing.T, s site.Site, _ string) {
	r, err := s.Run(t.Context(), site.Command{Argv: shell("echo out; echo words >&2; exit 3")})
	require.NoError(t, err)
	assert.Equal(t, site.Result{Stdout: []byte("out\n"), Stderr: []byte("words\n"), Exit: 3, Ended: "exit status 3"}, r)
	r, err = s.Run(t.Context(), site.Command{Argv: shell("kill -9 $$")})
	require.NoError(t, err)
	assert.Equal(t, -1, r.Exit)
	assert.Equal(t, "signal: killed", r.Ended)
	_, err = s.Run(t.Context(), site.Command{Argv: []string{"/absent/program"}})
	assert.ErrorIs(t, err, syscall.ENOENT)
	_, err = s.Run(t.Context(), site.Command{Argv: []string{"sh"}})
	assert.ErrorContains(t, err, "absolute path")
}

func given(t *testing.T, s site.Site, dir string) {
	r, err := s.Run(t.Context(), site.Command{
		Argv: shell(`cat; pwd; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=; echo "$0 $1"`), Env: []string{"A=b c"},
		Dir: dir, Stdin: []byte("in\n"),
	})
	require.NoError(t, err)
	assert.Equal(t, "in\n"+dir+"\nA=b c\n/bin/sh \n", string(r.Stdout))
	r, err = s.Run(t.Context(), site.Command{Argv: []string{"/bin/echo", "$(id)", "`id`", ";id", "'"}})
	require.NoError(t, err)
	assert.Equal(t, "$(id) `id` ;id '\n", string(r.Stdout), "no shell reads it")
}

func timeout(t *testing.T, s site.Site, dir string) {
	child := filepath.Join(dir, "child")
	argv := shell("sleep 300 & echo $! >" + child + "; wait")
	_, err := s.Run(t.Context(), site.Command{Argv: argv, Timeout: 300 * time.Millisecond})
	assert.ErrorIs(t, err, site.ErrTimeout)
	gone(t, child)

	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, os.RemoveAll(child))
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err = s.Run(ctx, site.Command{Argv: argv})
	assert.ErrorIs(t, err, context.Canceled)
	gone(t, child)
}

// gone waits until a process whose id a file holds is gone.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return !Running(pid) }, patience, 10*time.Millisecond)
}

// Gateway is the process of a gateway.
func Gateway(t *testing.T, s site.Site) int {
	t.Helper()
	r, err := s.Run(t.Context(), site.Command{Argv: []string{"/bin/sh", "-c", "echo $PPID"}})
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
	require.NoError(t, err)
	return pid
}

// Running tells whether a process is there and no zombie.
func Running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func locked(t *testing.T, s site.Site, dir string) {
	ctx, cancel := context.WithCancel(t.Context())
	goOn, done := filepath.Join(dir, "go-on"), filepath.Join(dir, "done")
	must(t, s, "/usr/bin/mkfifo", goOn)
	started := filepath.Join(dir, "started")
	failed := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, site.Command{Argv: shell("echo >" + started + "; read line <" + goOn + "; echo >" + done), Locked: true, Timeout: patience})
		failed <- err
	}()
	require.Eventually(t, func() bool { return exists(started) }, patience, 5*time.Millisecond)
	cancel()
	assert.ErrorIs(t, <-failed, context.Canceled)
	require.NoError(t, os.WriteFile(goOn, []byte("\n"), 0))
	assert.Eventually(t, func() bool { return exists(done) }, patience, 5*time.Millisecond)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func tooMuch(t *testing.T, s site.Site, _ string) {
	_, err := s.Run(t.Context(), site.Command{Argv: []string{"/usr/bin/head", "-c", strconv.Itoa(site.MaxOutput + 1), "/dev/zero"}, Timeout: patience})
	assert.ErrorIs(t, err, site.ErrTooLarge)
	r, err := s.Run(t.Context(), site.Command{Argv: []string{"/usr/bin/head", "-c", strconv.Itoa(site.MaxOutput), "/dev/zero"}, Timeout: patience})
	require.NoError(t, err)
	assert.Len(t, r.Stdout, site.MaxOutput)
}

func find(t *testing.T, s site.Site, dir string) {
	tool := filepath.Join(dir, "squeue")
	const program = 0o755
	require.NoError(t, s.Write(t.Context(), tool, []byte("#!/bin/sh\n"), program))
	require.NoError(t, s.Write(t.Context(), filepath.Join(dir, "text"), nil, ownerOnly))
	found, err := s.Find(t.Context(), "sh", tool, "no-such-program", filepath.Join(dir, "text"))
	require.NoError(t, err)
	assert.Len(t, found, 2)
	assert.Equal(t, tool, found[tool])
	assert.True(t, filepath.IsAbs(found["sh"]))
}
