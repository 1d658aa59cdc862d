package mpirun

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi/launcher"
)

// put makes a program in a directory.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

func TestNextOnPath(t *testing.T) {
	root := t.TempDir()
	dir := func(name string) string { return filepath.Join(root, name) }
	own := put(t, dir("own"), "agent", "#!/bin/sh\n")
	require.NoError(t, os.MkdirAll(dir("run"), 0o755))
	require.NoError(t, os.Symlink(own, filepath.Join(dir("run"), "mpirun")))
	before, after := put(t, dir("before"), "mpirun", "#!/bin/sh\n"), put(t, dir("after"), "mpirun", "#!/bin/sh\n")
	require.NoError(t, os.WriteFile(filepath.Join(root, "mpirun"), nil, 0o644))
	for name, tc := range map[string]struct {
		path []string
		want string
	}{
		"the one behind this program":          {[]string{dir("before"), dir("run"), dir("after")}, after},
		"none behind it":                       {[]string{dir("before"), dir("run")}, ""},
		"the first, where this one is not":     {[]string{dir("before"), dir("after")}, before},
		"a file that is no program, and a dir": {[]string{root, "relative", dir("after")}, after},
		"none":                                 {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, next(own, "mpirun", strings.Join(tc.path, ":")))
		})
	}
}

func TestLinks(t *testing.T) {
	self, path := "/proc/self/exe", t.TempDir()
	put(t, path, "mpiexec.hydra", "#!/bin/sh\n")
	for mode, want := range map[string][]string{
		ModeSSH:  {"mpiexec.hydra"},
		ModeSrun: {"mpiexec", "mpiexec.hydra", "mpirun"},
	} {
		dir := t.TempDir()
		require.NoError(t, Link(dir, self, mode, []string{"/nowhere", path}))
		require.NoError(t, Link(dir, self, mode, []string{path}), "again")
		var got []string
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			got = append(got, e.Name())
		}
		assert.Equal(t, want, got, mode)
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	env := func(string) string { return dir }
	_, found, err := readSettings(env)
	require.NoError(t, err)
	assert.False(t, found)
	want := Settings{Socket: "@s", Mode: ModeSrun, PMI: "pmi2"}
	require.NoError(t, WriteSettings(dir, want))
	got, found, err := readSettings(env)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, want, got)
}

// compile makes an empty program that is linked with an MPI.
func compile(t *testing.T, mpi string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), mpi)
	cmd := exec.CommandContext(t.Context(), "mpicc."+mpi, "-x", "c", "-Wl,--no-as-needed", "-o", path, "-")
	cmd.Stdin = strings.NewReader("int main(void) { return 0; }")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestChooseProtocol(t *testing.T) {
	openMPI, mpich, none := compile(t, "openmpi"), compile(t, "mpich"), "/bin/sh"
	for name, tc := range map[string]struct {
		env, annotation, next, program string
		want, refused                  string
	}{
		"Open MPI's launcher and program":          {next: "/usr/bin/mpirun.openmpi", program: openMPI, want: "pmix"},
		"MPICH's launcher and program":             {next: "/usr/bin/mpiexec.mpich", program: mpich, want: "pmi2"},
		"a program that says nothing":              {next: "/usr/bin/mpiexec.mpich", program: none, want: "pmi2"},
		"no launcher, but the program says it":     {program: mpich, want: "pmi2"},
		"the annotation comes before the MPI":      {annotation: "pmix_v4", next: "/usr/bin/mpiexec.mpich", program: none, want: "pmix_v4"},
		"the variable comes before all":            {env: "pmi2", annotation: "pmix", next: "/usr/bin/mpirun.openmpi", program: mpich, want: "pmi2"},
		"a launcher that says nothing of use":      {next: "/bin/true", program: openMPI, want: "pmix"},
		"another MPI's program":                    {next: "/usr/bin/mpirun.openmpi", program: mpich, refused: "is linked with MPICH, which speaks pmi2, and the ranks would be started for pmix (/usr/bin/mpirun.openmpi is that of Open MPI)"},
		"a program that the annotation is not for": {annotation: "pmi2", program: openMPI, refused: "is linked with Open MPI, which speaks pmix, and the ranks would be started for pmi2 (the annotation gangline.dev/mpi-pmi)"},
		"nobody says anything":                     {program: none, refused: "it is not known which MPI the program is linked with"},
		"a variable that is no protocol":           {env: "mpi", program: none, refused: `GANGLINE_MPI_PMI: "mpi" is none of pmix`},
	} {
		t.Run(name, func(t *testing.T) {
			c := call{name: "mpirun", next: tc.next, settings: Settings{PMI: tc.annotation}, env: []string{"PATH=/usr/bin:/bin"}}
			if tc.env != "" {
				c.env = append(c.env, PMIVariable+"="+tc.env)
			}
			got, err := c.chooseProtocol(t.Context(), []launcher.RankProgram{{Argv: []string{tc.program}, Dir: "/"}})
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestTheFileOfAProgram(t *testing.T) {
	c := call{env: []string{"PATH=/nowhere:/bin"}}
	for program, want := range map[string]string{"sh": "/bin/sh", "/x/y": "/x/y", "./a": "/w/a", "nothing-of-that-name": ""} {
		assert.Equal(t, want, c.file(launcher.RankProgram{Argv: []string{program}, Dir: "/w"}), program)
	}
}

func TestOpenMPIIsCalledByTheNameThatWasUsed(t *testing.T) {
	assert.Equal(t, "mpirun", nameFor("/usr/bin/mpirun.openmpi", "mpirun"))
	assert.Equal(t, "/usr/bin/mpiexec.mpich", nameFor("/usr/bin/mpiexec.mpich", "mpiexec.mpich"), "Hydra looks beside it for its helpers")
}
