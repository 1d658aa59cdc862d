package volume_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

func TestMakesDirectoriesWithTheRulesMode(t *testing.T) {
	for sentence, tc := range map[string]struct {
		mode   *int32
		parent fs.FileMode // of what is there
		want   fs.FileMode
	}{
		"without one they are usual":     {parent: 0o755, want: 0o755},
		"it is exact":                    {mode: ptr.To[int32](0o777), parent: 0o755, want: 0o777},
		"setgid is the rule's":           {mode: ptr.To[int32](0o2770), parent: 0o755, want: 0o770 | fs.ModeSetgid},
		"setgid is inherited":            {mode: ptr.To[int32](0o750), parent: 0o755 | fs.ModeSetgid, want: 0o750 | fs.ModeSetgid},
		"the sticky bit is the rule's":   {mode: ptr.To[int32](0o1777), parent: 0o755, want: 0o777 | fs.ModeSticky},
		"usual ones inherit setgid, too": {parent: 0o755 | fs.ModeSetgid, want: 0o755 | fs.ModeSetgid},
	} {
		t.Run(sentence, func(t *testing.T) {
			base := t.TempDir()
			require.NoError(t, os.Chmod(base, tc.parent))
			got, err := volume.FindHost(filepath.Join(base, "ns", "claim"), spool.Host{
				Type: corev1.HostPathDirectoryOrCreate, Mode: tc.mode, Allowed: []spool.AllowedDir{{Path: base}},
			})
			require.NoError(t, err)
			for _, dir := range []string{got.Path, filepath.Dir(got.Path)} {
				info, err := os.Stat(dir)
				require.NoError(t, err)
				assert.Equal(t, tc.want|fs.ModeDir, info.Mode(), dir)
			}
		})
	}
}

// Tests may run as root, whom nothing is closed to: so another process looks, as an
// ordinary user.
const envFind = "TEST_FIND"

func TestMain(m *testing.M) {
	if path := os.Getenv(envFind); path != "" {
		kind, path, _ := strings.Cut(path, ":")
		_, err := volume.FindHost(path, spool.Host{Type: corev1.HostPathType(kind), Allowed: []spool.AllowedDir{{Path: "/"}}})
		if err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestTellsOfPathsThatTheUserHasNoAccessTo(t *testing.T) {
	base, err := os.MkdirTemp("/tmp", "access-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(base)) })
	at := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	for _, dir := range []string{at("closed", "deep"), at("listless"), at("open")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(at("secret"), nil, 0o600))
	modes := map[string]fs.FileMode{base: 0o755, at("listless"): 0o711, at("secret"): 0o600, at("closed"): 0o700}
	if os.Getuid() != 0 { // then they are the user's own
		modes[at("listless")], modes[at("secret")], modes[at("closed")] = 0o111, 0, 0
	}
	for path, mode := range modes {
		require.NoError(t, os.Chmod(path, mode))
	}
	t.Cleanup(func() { _ = os.Chmod(at("closed"), 0o700) })
	for sentence, tc := range map[string]struct{ kind, path, says string }{
		"a directory that he may not enter":     {"", at("closed"), "has no access to " + at("closed") + ": " + at("closed") + " is "},
		"a directory in one":                    {"Directory", at("closed", "deep"), "has no access to " + at("closed", "deep") + ": " + at("closed") + " is "},
		"a file that he may not read":           {"File", at("secret"), "has no access to " + at("secret")},
		"a directory that he may not list":      {"Directory", at("listless"), ""},
		"a directory that he may enter":         {"", at("open"), ""},
		"a new directory in somebody else's":    {"DirectoryOrCreate", at("closed", "new"), "has no access to " + at("closed", "new")},
		"a new directory where he cannot write": {"DirectoryOrCreate", "/usr/new/er", "may not make /usr/new/er: /usr is another user's, with mode drwxr-xr-x; have it made"},
	} {
		t.Run(sentence, func(t *testing.T) {
			self, err := os.Executable()
			require.NoError(t, err)
			program := at("program")
			if _, err := os.Stat(program); err != nil {
				data, err := os.ReadFile(self)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(program, data, 0o755))
			}
			cmd := exec.Command(program)
			cmd.Env, cmd.Dir = []string{envFind + "=" + tc.kind + ":" + tc.path}, "/"
			if os.Getuid() == 0 {
				const nobody = 65534
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			if tc.says == "" {
				assert.Empty(t, string(out))
				return
			}
			assert.Regexp(t, tc.says, string(out))
		})
	}
}
