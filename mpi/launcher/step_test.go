package launcher_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/test/golden"
)

func TestSrunCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		gang   launcher.Gang
		line   string
		golden string
		step   launcher.Step
	}{
		"a gang of equal pods":  {gang(), "a", "srun.txt", launcher.Step{Components: 1, PMI: "pmix"}},
		"a heterogeneous job":   {mixed(), "a", "srun-heterogeneous.txt", launcher.Step{Components: 2, PMI: "pmi2"}},
		"one of its components": {mixed(), "-n 1 --host pi-3 a", "srun-component.txt", launcher.Step{Components: 2, PMI: "pmix_v4", Label: true, Verbose: true, Stdin: "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			ranks, err := lay(t, tc.gang, tc.line)
			require.NoError(t, err)
			tc.step.JobID, tc.step.Ranks = "42", ranks
			tc.step.Program, tc.step.Spool, tc.step.Scratch = "/shared/gangline-agent", "/shared/spool/gangs/pi-1", "/dev/shm/step"
			c := launcher.Srun{}.Command(tc.step)
			text := strings.Join(c.Argv, "\n") + "\n"
			for _, f := range c.Files {
				text += "\n" + f.Path + ":\n" + f.Data
			}
			golden.Equal(t, "testdata/"+tc.golden, text)
		})
	}
}

func TestStepOrders(t *testing.T) {
	ranks, err := lay(t, gang(), "-n 3 a : -n 2 b")
	require.NoError(t, err)
	orders := launcher.StepOrders{
		Step: "s",
		Runs: launcher.RunsOf(ranks), PMI: "pmix",
		Programs: []launcher.RankProgram{{Argv: words("a"), Dir: "/"}, {Argv: words("b"), Env: words("X=1")}},
	}
	text, err := orders.Encode()
	require.NoError(t, err)
	read, err := launcher.DecodeStepOrders(text)
	require.NoError(t, err)
	assert.Equal(t, orders, read)
	assert.Equal(t, 5, read.Size())
	var got []int
	for n := range 5 {
		run, ok := read.Rank(n)
		require.True(t, ok)
		got = append(got, run.Program*10+run.Slot)
	}
	assert.Equal(t, []int{0, 0, 1, 11, 12}, got)
	for _, n := range []int{-1, 5} {
		_, ok := read.Rank(n)
		assert.False(t, ok, n)
	}
	_, err = launcher.StepOrders{Programs: []launcher.RankProgram{{Env: []string{strings.Repeat("x", 130<<10)}}}}.Encode()
	assert.ErrorContains(t, err, "pass on fewer variables")
	_, err = launcher.DecodeStepOrders("")
	assert.ErrorContains(t, err, "reading GANGLINE_STEP")
}

func TestFlavours(t *testing.T) {
	for says, want := range map[string]string{
		"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n": "Open MPI pmix",
		"prterun (PRRTE) 3.0.2": "Open MPI pmix",
		"HYDRA build details:\n    Version:                                 4.0.2\n":       "MPICH pmi2",
		"Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701 (id: 179630a)": "Intel MPI pmi2",
		"bash: mpirun: command not found":                                                  " ",
	} {
		name, pmi, _ := launcher.LauncherFlavour(says)
		assert.Equal(t, want, name+" "+pmi, says)
	}
	for library, want := range map[string]string{
		"libmpi.so.40": "Open MPI pmix", "libmpi_mpifh.so.40": "Open MPI pmix", "libmpi_usempif08-gfortran.so.40": "Open MPI pmix",
		"libmpich.so.12": "MPICH pmi2", "libmpi.so.12": "MPICH pmi2", "libmpifort.so.12": "MPICH pmi2", "libc.so.6": " ", "libmpi_stubs.so.1": " ",
	} {
		name, pmi, _ := launcher.ProgramFlavour([]string{"libm.so.6", library})
		assert.Equal(t, want, name+" "+pmi, library)
	}
	for _, pmi := range []string{"pmix", "pmix_v5", "pmi2", "cray_shasta"} {
		assert.NoError(t, launcher.CheckPMI(pmi))
	}
	for _, pmi := range []string{"", "none", "pmix --help", "PMIX"} {
		assert.Error(t, launcher.CheckPMI(pmi), pmi)
	}
	assert.True(t, launcher.SpeaksPMIx("pmix_v4"))
	assert.False(t, launcher.SpeaksPMIx("pmi2"))
}
