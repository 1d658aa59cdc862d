package sitetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sudo is this machine's sudo or, where it has none, a double that does the same with
// the same command line.
func Sudo(t testing.TB, dir string) string {
	t.Helper()
	if path, err := exec.LookPath("sudo"); err == nil {
		return path
	}
	t.Log("sudo is not installed: a double stands in for it")
	path := filepath.Join(dir, "sudo")
	const double = `#!/bin/sh
[ "$1 $2 $3 $5" = "-n -H -u --" ] || exit 1
user=$4; shift 5
exec /usr/sbin/runuser -u "$user" -- env -i HOME="$(getent passwd "$user" | cut -d: -f6)" USER="$user" LOGNAME="$user" PATH="$PATH" "$@"
`
	const program = 0o755
	require.NoError(t, os.WriteFile(path, []byte(double), program))
	return path
}
