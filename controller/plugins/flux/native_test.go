package flux_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/golden"
)

// The tests of this file are about the HPC side; those of Flux itself are end-to-end tests.

// newNative is a training container of a job of two nodes on the HPC side, whose nodes
// have Flux.
func newNative(t *testing.T, trainer, host string) *container {
	t.Helper()
	c := newContainerOn(t, "alps", trainJob(trainer), plain, host)
	require.NoError(t, os.RemoveAll(c.path("opt")))
	require.NoError(t, os.MkdirAll(c.path("mnt/flux"), 0o755)) // an emptyDir
	c.write("bin/flux", fluxDouble)
	c.env = append(c.env, "GANGLINE_FLUX_LEAD=lammps-node-0-0.lammps:20004", "FLUX_URI=local:///instance")
	return c
}

func TestNativeScript(t *testing.T) {
	_, components, err := enforce(t, trainJob(`{numNodes: 3, numProcPerNode: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}, command: [lmp]}`), plain, "alps")
	require.NoError(t, err)
	files := scripts(t, components)
	golden.Equal(t, "testdata/native-entrypoint.sh", files["entrypoint.sh"])
	assert.Len(t, files, 2, "and pod.lua, but no init container's")
	assert.Contains(t, files, "pod.lua")
}

func TestNativeTasks(t *testing.T) {
	const all = "--exclusive -o cpu-affinity=off '--env-remove=*' --env=FLUX_SHELL_RC_PATH"
	for name, tc := range map[string]struct {
		trainer, tasks, followers string
	}{
		"one":                          {`{}`, "(-N 1 -n 1 " + all + ")", "''"},
		"two nodes":                    {`{numNodes: 2, numProcPerNode: 4}`, "(-N 2 -n 8 " + all + ")", "'lammps-node-0-1'"},
		"-g is a task's share of GPUs": {`{numNodes: 3, numProcPerNode: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}`, "(-N 3 -n 6 " + all + " -g 2)", "'lammps-node-0-[1-2]'"},
		"GPUs that cannot be shared out are seen by all, as nodes are the job's alone": {
			`{numNodes: 2, numProcPerNode: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 2}}}`, "(-N 2 -n 8 " + all + ")", "'lammps-node-0-1'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, components, err := enforce(t, trainJob(tc.trainer), plain, "alps")
			require.NoError(t, err)
			script := scripts(t, components)["entrypoint.sh"]
			assert.Equal(t, "tasks="+tc.tasks, line(script, "tasks"))
			assert.Equal(t, "followers="+tc.followers, line(script, "followers"))
		})
	}
}

func TestAnHPCNodeWithoutFluxIsExplained(t *testing.T) {
	c := newNative(t, `{numNodes: 2, command: [app]}`, lead)
	require.NoError(t, os.Remove(c.path("bin/flux")))
	status, out := c.entry()
	assert.Equal(t, 127, status)
	assert.Equal(t, "There is no flux on the HPC node's PATH ("+c.path("bin")+":/usr/bin:/bin): the site must install flux-core on its nodes, "+
		"or the variable PATH of the training container name the directory where flux is.\n", out)
}

func TestTheNodesOwnFluxRuns(t *testing.T) {
	c := newNative(t, `{numNodes: 2, numProcPerNode: 2, command: [app, "x y"]}`, lead)
	c.write("bin/app", `#!/bin/bash
printf '%s\0' "$@" "${FLUX_URI-unset}" >"$ARGS"
`)
	status, out := c.entry()
	require.Zero(t, status, out)
	assert.Equal(t, "x y\x00unset\x00", c.read("args"), "the instance has no enclosing one")
	assert.NoDirExists(t, c.path("mnt/flux/view"))
	assert.NoDirExists(t, c.path("opt/software"))
	assert.Regexp(t, `^\d+\n$`, c.read("mnt/flux/pid"))

	config := c.path("mnt/flux/config")
	assert.Equal(t, []string{
		"R encode --local", "R decode --count=core",
		"R encode --hosts=lammps-node-0-[0-1] --cores=0-1",
		"broker --config-path=" + config + "/etc/flux/config -Stbon.topo=kary:0 -Srundir=" + config + "/run/flux -Sstatedir=" +
			config + "/var/lib/flux -Slocal-uri=local://" + config + "/run/flux/local -Slog-stderr-mode=local /bin/bash " + c.entrypoint + " --run app x y",
		"run -N 2 -n 4 --exclusive -o cpu-affinity=off --env-remove=* --env=FLUX_SHELL_RC_PATH -- app x y",
	}, sortedHead(strings.Split(strings.TrimSpace(c.read("log")), "\n")))
	assert.Equal(t, `[resource]
path = "`+config+`/etc/flux/system/R"
noverify = true

[bootstrap]
curve_cert = "`+config+`/etc/curve/curve.cert"
hosts = [{ host = "lammps-node-0-0", bind = "tcp://*:20004", connect = "tcp://lammps-node-0-0.lammps:20004" }, { host = "lammps-node-0-1" }]

[sched-fluxion-qmanager]
queue-policy = "fcfs"
`, c.read("mnt/flux/config/etc/flux/config/broker.toml"))
}

// sortedHead has the first two lines, of one pipeline, in one order.
func sortedHead(lines []string) []string {
	if len(lines) > 1 && strings.HasPrefix(lines[0], "R decode") {
		lines[0], lines[1] = lines[1], lines[0]
	}
	return lines
}

func TestResourcesAreThoseOfTheSlot(t *testing.T) {
	const (
		gpus = `numProcPerNode: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 2}}`
		four = `numProcPerNode: 4`
		one  = `resourcesPerNode: {limits: {nvidia.com/gpu: 1}}`
	)
	for name, tc := range map[string]struct {
		more, cores, cuda, want string
	}{
		"one is no range, which Flux would not read": {one, "1", "3", "--cores=0 --gpus=0"},
		"as many cores as there are":                 {four, "16", "", "--cores=0-15"},
		"tasks without a core each share them":       {four, "2", "", "--cores=0-3"},
		"GPUs count from 0, whichever they are":      {gpus, "4", "5,7", "--cores=0-3 --gpus=0-1"},
		"a node of its own may have more":            {gpus, "4", "0,1,2,3", "--cores=0-3 --gpus=0-3"},
		"by what identifies them":                    {gpus, "4", "GPU-5a2b,GPU-77", "--cores=0-3 --gpus=0-1"},
		"what the site does not bind is as wanted":   {gpus, "4", "", "--cores=0-3 --gpus=0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newNative(t, `{command: [app], `+tc.more+`}`, lead)
			c.env = append(c.env, "CORES="+tc.cores, "CUDA_VISIBLE_DEVICES="+tc.cuda)
			status, out := c.entry()
			require.Zero(t, status, out)
			assert.Contains(t, c.read("log"), "\nR encode --hosts=lammps-node-0-[0] "+tc.want+"\n")
		})
	}
}

// podLua runs pod.lua for a task in a pod of these variables, with Lua itself but doubles
// of what flux-shell-initrc(5) calls plugin, shell and task. It returns the task's
// environment.
func podLua(t *testing.T, pod, task []string, affinity string) []string {
	t.Helper()
	c := newNative(t, `{command: [app]}`, lead)
	process := exec.CommandContext(t.Context(), "/bin/sleep", "infinity")
	process.Env = pod
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	c.write("mnt/flux/pid", strconv.Itoa(process.Process.Pid)+"\n")
	var env strings.Builder
	for _, entry := range task {
		name, value, _ := strings.Cut(entry, "=")
		env.WriteString("env[" + strconv.Quote(name) + "] = " + strconv.Quote(value) + "\n")
	}
	c.write("double.lua", `
env = {}
`+env.String()+`
task = {
  getenv = function (name) return env[name] end,
  unsetenv = function (name) env[name] = nil end,
  setenv = function (name, value, overwrite) if overwrite ~= 0 or not env[name] then env[name] = value end end,
}
shell = { options = { ["gpu-affinity"] = arg[2] ~= "" and arg[2] or nil } }
plugin = { register = function (p) handler = p.handlers[1] end }
dofile(arg[1])
assert(handler.topic == "task.init")
handler.fn()
for name, value in pairs(env) do io.write(name, "=", value, "\0") end
`)
	out, err := exec.CommandContext(t.Context(), "lua5.3", c.path("double.lua"), c.path("config/pod.lua"), affinity).CombinedOutput()
	require.NoError(t, err, string(out))
	return regexp.MustCompile("[^\x00]+").FindAllString(string(out), -1)
}

func TestATaskHasItsPodsVariables(t *testing.T) {
	for name, tc := range map[string]struct {
		pod, task []string
		affinity  string
		want      []string
	}{
		"all of them": {
			pod:  []string{"HOME=/h", "EMPTY=", "LINES=a\nb=c", "odd.name=1"},
			want: []string{"HOME=/h", "EMPTY=", "LINES=a\nb=c", "odd.name=1"},
		},
		"what the task has stays": {
			pod: []string{"HOME=/h"}, task: []string{"HOME=/other"}, want: []string{"HOME=/other"},
		},
		"Flux' own are the shell's": {
			pod: []string{"FLUX_URI=local:///x", "PMI_RANK=7"}, task: []string{"FLUX_URI=local:///y"}, want: []string{"FLUX_URI=local:///y"},
		},
		"GPUs are the pod's": {
			pod: []string{"CUDA_VISIBLE_DEVICES=5,7"}, task: []string{"CUDA_VISIBLE_DEVICES=0,1"}, want: []string{"CUDA_VISIBLE_DEVICES=5,7"},
		},
		"a task's GPU is one of the pod's": {
			pod: []string{"CUDA_VISIBLE_DEVICES=5,GPU-7"}, task: []string{"CUDA_VISIBLE_DEVICES=1"}, want: []string{"CUDA_VISIBLE_DEVICES=GPU-7"},
		},
		"a job without GPUs has none": {
			pod: []string{"CUDA_VISIBLE_DEVICES=5,7"}, task: []string{"CUDA_VISIBLE_DEVICES=-1"}, want: []string{"CUDA_VISIBLE_DEVICES=-1"},
		},
		"nor is there one beyond the pod's": {
			pod: []string{"CUDA_VISIBLE_DEVICES=5"}, task: []string{"CUDA_VISIBLE_DEVICES=3"}, want: []string{"CUDA_VISIBLE_DEVICES=-1"},
		},
		"where the site binds none, they are Flux'": {
			pod: []string{"CUDA_VISIBLE_DEVICES="}, task: []string{"CUDA_VISIBLE_DEVICES=1"}, want: []string{"CUDA_VISIBLE_DEVICES=1"},
		},
		"without Flux' binding all of the pod's, not those of where the job was submitted": {
			pod: []string{"CUDA_VISIBLE_DEVICES=5,7"}, task: []string{"CUDA_VISIBLE_DEVICES=2,3"}, affinity: "off",
			want: []string{"CUDA_VISIBLE_DEVICES=5,7"},
		},
		"other devices too": {
			pod: []string{"ROCR_VISIBLE_DEVICES=5", "ZE_AFFINITY_MASK=1"}, task: []string{"ROCR_VISIBLE_DEVICES=0"},
			want: []string{"ROCR_VISIBLE_DEVICES=5", "ZE_AFFINITY_MASK=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ElementsMatch(t, tc.want, podLua(t, tc.pod, tc.task, tc.affinity))
		})
	}
}
