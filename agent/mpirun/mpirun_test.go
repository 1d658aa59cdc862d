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
	"github.com/gangline/gangline/mpi/remoteshell"
)

// put makes a program in a directory.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
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
	_, found, err := ReadSettings(env)
	require.NoError(t, err)
	assert.False(t, found)
	want := Settings{Socket: "@s", Mode: ModeSrun, PMI: "pmi2"}
	require.NoError(t, WriteSettings(dir, want))
	got, found, err := ReadSettings(env)
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

func TestRanksThatTheRealLauncherStarts(t *testing.T) {
	openMPI, mpich := compile(t, "openmpi"), compile(t, "mpich")
	for name, tc := range map[string]struct {
		next, program, refused, snare string
	}{
		"Open MPI's":          {"/usr/bin/mpirun.openmpi", openMPI, "", "PMI_PORT"},
		"MPICH's":             {"/usr/bin/mpiexec.mpich", mpich, "", "OMPI_MCA_ess_singleton_server"},
		"what tells nothing":  {"/usr/bin/mpirun.openmpi", "/bin/sh", "", "PMI_PORT"},
		"MPICH's by Open MPI": {"/usr/bin/mpirun.openmpi", mpich, "is linked with MPICH, which speaks pmi2, and the ranks would be started for pmix (/usr/bin/mpirun.openmpi is that of Open MPI): they would not find each other; call the launcher of MPICH (mpiexec.hydra, mpiexec.mpich, mpirun.mpich)", ""},
		"Open MPI's by MPICH": {"/usr/bin/mpiexec.mpich", openMPI, "is linked with Open MPI, which speaks pmix, and the ranks would be started for pmi2 (/usr/bin/mpiexec.mpich is that of MPICH)", ""},
		"no launcher we know": {"/bin/true", mpich, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := call{name: "mpirun", next: tc.next, env: []string{"PATH=/usr/bin:/bin"}}
			err := c.guard(t.Context(), []launcher.RankProgram{{Argv: []string{tc.program}, Dir: "/"}})
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			if tc.snare == "" {
				assert.Len(t, c.env, 1)
				return
			}
			assert.NotEmpty(t, c.getenv(tc.snare))
			assert.Contains(t, c.getenv(remoteshell.CarryVariable), tc.snare, "and it goes along to the other pods")
		})
	}
}

func TestTheDefaultHostfileSaysWhichMPI(t *testing.T) {
	dir := t.TempDir()
	openMPI, hydra := put(t, dir, "openmpi", "a slots=2\nb slots=2\n"), put(t, dir, "hydra", "# hosts\na:2\nb:2\n")
	for name, tc := range map[string]struct {
		called, next, openMPI, hydra, want string
	}{
		"Hydra's, and so MPICH":              {"mpirun", "/usr/bin/mpirun.openmpi", hydra, hydra, "/usr/bin/mpiexec.hydra"},
		"Hydra's alone":                      {"mpiexec", "/usr/bin/mpiexec.openmpi", "", hydra, "/usr/bin/mpiexec.hydra"},
		"Open MPI's":                         {"mpirun", "/usr/bin/mpirun.mpich", openMPI, "", "/usr/bin/mpirun.openmpi"},
		"what stands on PATH is meant":       {"mpirun", "/usr/bin/mpirun.mpich", hydra, hydra, "/usr/bin/mpirun.mpich"},
		"one for each":                       {"mpirun", "/usr/bin/mpirun.openmpi", openMPI, hydra, "/usr/bin/mpirun.openmpi"},
		"none":                               {"mpirun", "/usr/bin/mpirun.openmpi", "", "", "/usr/bin/mpirun.openmpi"},
		"whoever names an MPI gets that one": {"mpirun.openmpi", "/usr/bin/mpirun.openmpi", hydra, hydra, "/usr/bin/mpirun.openmpi"},
	} {
		t.Run(name, func(t *testing.T) {
			c := call{name: tc.called, next: tc.next, env: []string{
				"PATH=/usr/bin:/bin", "OMPI_MCA_orte_default_hostfile=" + tc.openMPI, "HYDRA_HOST_FILE=" + tc.hydra,
			}}
			c.settle(t.Context())
			assert.Equal(t, tc.want, c.next)
		})
	}
}

func TestOutputThatNobodyReads(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	unread := make(chan bool)
	go func() { unread <- waitUnread(w) }()
	_, err = w.WriteString("still read")
	require.NoError(t, err)
	require.NoError(t, r.Close())
	assert.True(t, <-unread)
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	assert.False(t, waitUnread(file), "a file needs no reader")
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
