package launcher_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/mpi/launcher"
)

func words(s string) []string { return strings.Fields(s) }

func program(line string, ranks int) launcher.Program {
	return launcher.Program{Argv: words(line), Ranks: ranks, Exports: []launcher.Export{}}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want launcher.Request
	}{
		"a program alone": {"./pi 3 -n 4", launcher.Request{Programs: []launcher.Program{program("./pi 3 -n 4", 0)}}},
		"Open MPI's number of ranks, and what means nothing here": {
			"--allow-run-as-root -np 8 --bind-to core --mca plm_rsh_agent ssh ./pi",
			launcher.Request{
				Programs: []launcher.Program{program("./pi", 8)},
				Ignored: []string{
					"--allow-run-as-root: ranks are started by the workload manager, not by remote daemons",
					"--bind-to: the workload manager binds each pod to its CPUs, and ranks stay on those of their pod",
					"--mca plm_rsh_agent: ranks are started by the workload manager, not by remote daemons",
				},
			},
		},
		"one dash or two, and a value with =": {
			"-hostfile /h --npernode 2 -map-by=node ./pi",
			launcher.Request{Programs: []launcher.Program{program("./pi", 0)}, Hostfile: "/h", PerHost: 2, Cyclic: true},
		},
		"ranks per node by --map-by": {
			"--map-by ppr:4:node:oversubscribe:pe=2 a",
			launcher.Request{Programs: []launcher.Program{program("a", 0)}, PerHost: 4, Oversubscribe: true, Ignored: []string{
				"--map-by: the workload manager binds each pod to its CPUs, and ranks stay on those of their pod",
			}},
		},
		"Hydra's words": {
			"-f /h -ppn 3 -l -v -genv A 1 -genvlist B,C -env D 4 -wdir /w -rr -launcher ssh a -env",
			launcher.Request{
				Programs: []launcher.Program{{
					Argv: words("a -env"), Dir: "/w",
					Exports: []launcher.Export{{Name: "A", Value: "1", Given: true}, {Name: "B"}, {Name: "C"}, {Name: "D", Value: "4", Given: true}},
				}},
				Hostfile: "/h", PerHost: 3, Label: true, Verbose: true, Cyclic: true,
				Ignored: []string{"-launcher: ranks are started by the workload manager, not by remote daemons"},
			},
		},
		"variables by -x, and parameters of Open MPI that are not about starting": {
			"-x A -x B=b=c -x C,D --mca btl tcp,self a",
			launcher.Request{Programs: []launcher.Program{{Argv: words("a"), Exports: []launcher.Export{
				{Name: "A"}, {Name: "B", Value: "b=c", Given: true}, {Name: "C"}, {Name: "D"}, {Name: "OMPI_MCA_btl", Value: "tcp,self", Given: true},
			}}}},
		},
		"several programs": {
			"-genv G 1 -n 1 --host a ./one x : -n 2 -wd /w ./two",
			launcher.Request{Programs: []launcher.Program{
				{Argv: words("./one x"), Ranks: 1, Hosts: []launcher.Host{{Name: "a", Slots: 1}}, Exports: []launcher.Export{{Name: "G", Value: "1", Given: true}}},
				{Argv: words("./two"), Ranks: 2, Dir: "/w", Exports: []launcher.Export{{Name: "G", Value: "1", Given: true}}},
			}},
		},
		"hosts with slots, and one that comes twice": {
			"-H a:2,b,b,C.sub a",
			launcher.Request{Programs: []launcher.Program{{
				Argv: words("a"), Hosts: []launcher.Host{{"a", 2}, {"b", 2}, {"c.sub", 1}}, Exports: []launcher.Export{},
			}}},
		},
		"the end of the options": {"-n 2 -- -odd", launcher.Request{Programs: []launcher.Program{program("-odd", 2)}}},
		"standard input for all": {"-s all a", launcher.Request{Programs: []launcher.Program{program("a", 0)}, Stdin: "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := launcher.Parse(words(tc.line), false)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestParseInforms(t *testing.T) {
	for _, line := range []string{"--version", "-V", "--help", "-info"} {
		got, err := launcher.Parse(words(line), false)
		require.NoError(t, err, line)
		assert.True(t, got.Informs, line)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ line, says string }{
		"no program":                      {"-n 2", "no program is given"},
		"an option that nobody knows":     {"--frobnicate a", "the option --frobnicate is not known to the launch mode srun; leave it out, or use the program's own launcher by the annotation gangline.dev/mpi-launch: ssh"},
		"a value for an option without":   {"--oversubscribe=2 a", "--oversubscribe=2 is not known"},
		"an option that is not possible":  {"--rankfile f a", "the option --rankfile is not possible in the launch mode srun: ranks are placed"},
		"a placement that is not":         {"--map-by numa a", "the option --map-by numa is not possible"},
		"a number that is none":           {"-n many a", `the option -n many: "many" is no number of ranks`},
		"no ranks":                        {"-n 0 a", `"0" is no number of ranks`},
		"a value that is missing":         {"-genv A", "needs 1 more words"},
		"several programs without number": {"-n 1 a : b", "program 2 of 2 (b) does not say how many ranks it has"},
		"an empty program":                {"-n 1 a :", "no program is given"},
		"slots that are none":             {"--host a:x a", `a: "x" is no number of slots`},
		"standard input for another":      {"-stdin 3 a", "standard input goes to 0, all or none"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := launcher.Parse(words(tc.line), false)
			assert.ErrorContains(t, err, tc.says)
		})
	}
}

func TestLenientParsePassesOverWhatIsNotPossible(t *testing.T) {
	got, err := launcher.Parse(words("--rankfile f --map-by numa --timeout 5 -n 2 a"), true)
	require.NoError(t, err)
	assert.Equal(t, []launcher.Program{program("a", 2)}, got.Programs)
	_, err = launcher.Parse(words("--frobnicate a"), true)
	assert.ErrorContains(t, err, "--frobnicate")
}

func TestLocal(t *testing.T) {
	for line, want := range map[string]bool{
		"--host localhost:4 a": true, "-H localhost,127.0.0.1 a": true, "a": false, "--host localhost,b a": false,
		"-n 1 --host localhost a : -n 1 b": false,
	} {
		got, err := launcher.Parse(words(line), true)
		require.NoError(t, err)
		assert.Equal(t, want, got.Local(), line)
	}
}

func TestParseHostfile(t *testing.T) {
	got, err := launcher.ParseHostfile("# the gang\npi-0.pi slots=2 max_slots=4\npi-1.pi:3\n\nuser@PI-2.pi # alone\npi-0.pi\npi-3.pi\npi-3.pi\n")
	require.NoError(t, err)
	assert.Equal(t, []launcher.Host{{"pi-0.pi", 3}, {"pi-1.pi", 3}, {"pi-2.pi", 0}, {"pi-3.pi", 2}}, got)
	_, err = launcher.ParseHostfile("pi slots=two")
	assert.ErrorContains(t, err, `pi: "two" is no number of slots`)
}

func TestProgramEnvironment(t *testing.T) {
	own := words("A=1 PATH=/bin B=2 GANGLINE_DIR=/d CUDA_VISIBLE_DEVICES=0 SLURM_JOB_ID=3 A=4")
	for name, tc := range map[string]struct {
		exports []launcher.Export
		want    []string
	}{
		"a name has the launcher's value, a later one wins": {[]launcher.Export{{Name: "A"}}, words("A=1 A=4")},
		"a given value":                         {[]launcher.Export{{Name: "A", Value: "x y", Given: true}}, []string{"A=x y"}},
		"what the launcher does not have":       {[]launcher.Export{{Name: "Z"}}, nil},
		"all but what belongs to the pod":       {[]launcher.Export{{}}, words("A=1 B=2 A=4")},
		"what belongs to the pod, if asked for": {[]launcher.Export{{Name: "PATH"}}, words("PATH=/bin")},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, launcher.Program{Exports: tc.exports}.Environment(own))
		})
	}
}

func TestEnvironments(t *testing.T) {
	env := words("PATH=/bin SLURM_CONF=/c SLURM_JOB_ID=3 SLURM_NTASKS=2 PMI_FD=4 PMIX_RANK=1 OMPI_MCA_btl=tcp OMPI_MCA_plm=rsh OMPI_MCA_rmaps_base_x=1 LD_LIBRARY_PATH=/l SRUN_DEBUG=3 CUDA_VISIBLE_DEVICES=0")
	assert.Equal(t, words("PATH=/bin SLURM_CONF=/c LD_LIBRARY_PATH=/l"), launcher.WithoutManager(env))
	assert.Equal(t, words("SLURM_CONF=/c SLURM_JOB_ID=3 SLURM_NTASKS=2 PMI_FD=4 PMIX_RANK=1"), launcher.RankVariables(env))
	assert.Equal(t, words("OMPI_MCA_btl=tcp"), launcher.Inherited(env))
	assert.Equal(t, words("AB=1 A=3 C=4"), launcher.Override(words("A=1 AB=1"), words("A=2 A=3"), words("C=4")))
}
