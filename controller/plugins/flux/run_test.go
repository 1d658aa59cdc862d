package flux_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// The tests of this file run the scripts with bash. Flux is not there: what they
// call flux is a double that starts programs as flux-broker(1), flux-run(1) and
// flux-exec(1) say, and writes down its arguments. So they show that a command
// arrives as it was and its status comes back, and what Flux is asked for; not
// that Flux does it.
const fluxDouble = `#!/bin/bash
printf '%s\n' "$*" >>"$LOG"
verb=$1
shift
case $verb in
R)
  if [[ $1 == decode ]]; then
    cat >/dev/null
    echo "${CORES:-1}"
  else
    echo R
  fi ;;
broker)
  while [[ ${1-} == -* ]]; do shift; done
  if (($#)); then "$@"; exit; fi
  exec follower ;;
run)
  while [[ ${1-} == -* ]]; do
    [[ $1 == --* ]] || shift
    shift
  done
  exec "$@" ;;
exec)
  shift
  exec "$@" ;;
esac
`

// container is a directory that stands for a container's root.
type container struct {
	t          *testing.T
	root       string
	entrypoint string
	argv       []string
	env        []string
}

// newContainer lays out the training container of a job after its init container
// has run, on the host of the given name.
func newContainer(t *testing.T, job, runtime, host string) *container {
	t.Helper()
	return newContainerOn(t, "", job, runtime, host)
}

// newContainerOn is newContainer on a cluster of the HPC side.
func newContainerOn(t *testing.T, cluster, job, runtime, host string) *container {
	t.Helper()
	info, components, err := enforce(t, job, runtime, cluster)
	require.NoError(t, err)
	text := scripts(t, components)
	c := &container{t: t, root: t.TempDir()}
	c.write("opt/views/._view/abc/bin/flux", fluxDouble)
	c.write("opt/views/._view/abc/bin/python3.11", "#!/bin/true\n")
	c.write("opt/views/._view/abc/lib/python3.11/site-packages/flux.py", "")
	c.write("opt/software/lib/libzmq.so", "")
	c.write("curve/curve.cert", "key")
	c.write("bin/uname", "#!/bin/bash\necho "+host+"\n")
	c.write("bin/app", `#!/bin/bash
printf '%s\0' "$@" >"$ARGS"
exit "${STATUS:-0}"
`)
	c.write("bin/sleep", "#!/bin/bash\necho sleep \"$*\" >>\"$LOG\"\n")
	c.env = []string{
		"PATH=" + c.path("bin") + ":/usr/bin:/bin",
		"LOG=" + c.path("log"), "ARGS=" + c.path("args"),
	}
	c.write("config/init.sh", c.moved(text["init.sh"]))
	c.write("config/pod.lua", c.moved(text["pod.lua"]))
	c.entrypoint = c.write("config/entrypoint.sh", c.moved(text["entrypoint.sh"]))

	// What the JobSet's plugin and then Kubernetes make of it.
	command := info.Trainer.Command
	require.Equal(t, []string{"/bin/bash", "/etc/flux-config/entrypoint.sh"}, command[:2])
	require.Nil(t, info.Trainer.Args)
	node := info.PodSet(v1alpha1.JobNode).TrainingContainer()
	c.argv = append(append([]string{}, command[2:]...), node.Args...)
	return c
}

func (c *container) path(name string) string { return filepath.Join(c.root, name) }

func (c *container) write(name, text string) string {
	c.t.Helper()
	path := c.path(name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

func (c *container) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(c.path(name))
	require.NoError(c.t, err)
	return string(text)
}

// moved has the paths of a script below the root; nothing else is changed.
func (c *container) moved(script string) string {
	return strings.NewReplacer(
		"/mnt/flux", c.path("mnt/flux"),
		"/opt/views", c.path("opt/views"),
		" /opt/software", " "+c.path("opt/software"),
		"/curve/curve.cert \"", c.path("curve/curve.cert")+" \"",
	).Replace(script)
}

func (c *container) bash(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.t.Context(), "/bin/bash", args...)
	cmd.Env = c.env
	cmd.Dir = c.root
	return cmd
}

// run runs a command and returns its status and all it wrote.
func (c *container) run(cmd *exec.Cmd) (int, string) {
	c.t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(c.t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// init runs the init container's script, and entry the other.
func (c *container) init() (int, string) { return c.run(c.bash(c.path("config/init.sh"))) }
func (c *container) entry() (int, string) {
	return c.run(c.bash(append([]string{c.entrypoint}, c.argv...)...))
}

// start is both, the first of which must succeed.
func (c *container) start() (int, string) {
	c.t.Helper()
	status, out := c.init()
	require.Zero(c.t, status, out)
	return c.entry()
}

const lead, follower = "lammps-node-0-0", "lammps-node-0-1"

func TestTheCommandArrivesWordForWord(t *testing.T) {
	quoted := func(words ...string) string {
		var out []string
		for _, w := range words {
			out = append(out, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(w)+`"`)
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	evil := []string{"a b", "", `it's "so"`, "$(touch pwned)", "`touch pwned`", "$HOME", "*", "one\ntwo", `back\slash`, "; exit 9", "-x", "--", "ü"}
	joinable := []string{"-v", "x", "4", "*", "$HOME", `"`, "'", "`id`", `\`, ";", "--"}
	for name, tc := range map[string]struct {
		trainJob, container string
		want                []string
	}{
		"plain words":                    {trainJob(`{command: [app], args: [-v, x, "4"]}`), ubuntu, []string{"-v", "x", "4"}},
		"words that only look odd":       {trainJob(`{command: [app], args: ` + quoted(joinable...) + `}`), ubuntu, joinable},
		"words that a shell would split": {trainJob(`{command: [app], args: ` + quoted(evil...) + `}`), ubuntu, evil},
		"a blank in the command itself":  {trainJob(`{command: ` + quoted(append([]string{"app"}, evil...)...) + `}`), ubuntu, evil},
		"no arguments":                   {trainJob(`{command: [app]}`), ubuntu, nil},
		"the runtime's command and args": {trainJob(`{}`), `{name: node, command: [app, one], args: ["two three"]}`, []string{"one", "two three"}},
		"the TrainJob's command and the runtime's args": {
			trainJob(`{command: [app]}`), `{name: node, command: [other], args: [one, "two three"]}`, []string{"one", "two three"}},
		"a command that is not joined, and the runtime's args": {
			trainJob(`{command: [app, "a b"]}`), `{name: node, args: ["two three"]}`, []string{"a b", "two three"}},
		"the TrainJob's args replace the runtime's": {
			trainJob(`{args: [mine]}`), `{name: node, command: [app], args: [one, two]}`, []string{"mine"}},
		"also if they are not joined": {
			trainJob(`{args: ["mi ne"]}`), `{name: node, command: [app], args: [one, two]}`, []string{"mi ne"}},
		"the runtime's args alone": {trainJob(`{}`), `{name: node, args: [app, "two three"]}`, []string{"two three"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, tc.trainJob, runtime(`{numNodes: 2, flux: {}}`, tc.container), lead)
			status, out := c.start()
			require.Zero(t, status, out)
			want := strings.Join(tc.want, "\x00") + "\x00"
			assert.Equal(t, want, c.read("args"))
			assert.NoFileExists(t, c.path("pwned"))
		})
	}
}

func TestSimpleCommandsLookAsKubeflowsDo(t *testing.T) {
	info, _, err := enforce(t, trainJob(`{command: [trainjob], args: [trainjob]}`),
		runtime(`{flux: {}}`, `{name: node, command: [trainjob], args: [trainjob]}`), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"/bin/bash", "/etc/flux-config/entrypoint.sh", "trainjob trainjob"}, info.Trainer.Command)
}

func TestTheStatusIsTheApplications(t *testing.T) {
	for name, tc := range map[string]struct {
		command, status string
		want            int
	}{
		"success":             {`[app]`, "0", 0},
		"failure":             {`[app]`, "3", 3},
		"another":             {`[app]`, "255", 255},
		"killed by a signal":  {`[bash, -c, "kill -KILL $$"]`, "", 137},
		"no such application": {`[nonesuch]`, "", 127},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, trainJob(`{numNodes: 2, command: `+tc.command+`}`), plain, lead)
			c.env = append(c.env, "STATUS="+tc.status)
			status, out := c.start()
			assert.Equal(t, tc.want, status, out)
			told, err := os.ReadFile(c.path("mnt/flux/failed-status"))
			if tc.want == 0 {
				assert.ErrorIs(t, err, fs.ErrNotExist)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, strconv.Itoa(tc.want), strings.TrimSpace(string(told)), "the followers are told")
		})
	}
}

func TestTheLeadAsksFlux(t *testing.T) {
	c := newContainer(t, trainJob(`{numNodes: 2, numProcPerNode: 4, command: [app, x]}`), plain, lead+".lammps.default.svc.cluster.local")
	status, out := c.start()
	require.Zero(t, status, out)
	config := c.path("mnt/flux/config")
	options := "--config-path=" + config + "/etc/flux/config -Scron.directory=" + config + "/etc/flux/system/cron.d -Stbon.fanout=256 -Srundir=" +
		config + "/run/flux -Sstatedir=" + config + "/var/lib/flux -Slocal-uri=local://" + config + "/run/flux/local -Slog-stderr-level=0 -Slog-stderr-mode=local"
	assert.Equal(t, []string{
		"R encode --hosts=lammps-node-0-[0-1] --cores=0-3",
		"broker " + options + " /bin/bash " + c.entrypoint + " --run app x",
		"run -N 2 -n 8 -- app x",
	}, strings.Split(strings.TrimSpace(c.read("log")), "\n"))
	assert.Equal(t, "R\n", c.read("mnt/flux/config/etc/flux/system/R"))
	assert.FileExists(t, c.path("mnt/flux/flux-operator-complete.txt"))
}

func TestWithoutACommandTheInstanceIsThereToConnectTo(t *testing.T) {
	c := newContainer(t, trainJob(`{}`), plain, lead)
	c.write("bin/follower", "#!/bin/bash\n")
	status, out := c.start()
	require.Zero(t, status, out)
	assert.Regexp(t, `\nbroker \S+ .* -Slog-stderr-mode=local -Sbroker.rc2_none\n$`, c.read("log"))
}

func TestFollowers(t *testing.T) {
	const fails = `#!/bin/bash
echo x >>"$LOG.tries"
(($(wc -l <"$LOG.tries") > 2))
`
	for name, tc := range map[string]struct {
		broker string
		want   int
		sleeps string
	}{
		"end well with the instance":               {"#!/bin/bash\n", 0, ""},
		"try again while there is no lead":         {fails, 0, "sleep 15 sleep 15"},
		"fail with the command, after the lead":    {"#!/bin/bash\necho 3 >\"${LOG%log}mnt/flux/failed-status\"\n", 3, "sleep 12"},
		"even if the broker does not end well too": {"#!/bin/bash\necho 3 >\"${LOG%log}mnt/flux/failed-status\"; exit 1\n", 3, "sleep 12"},
		"die with a broker that is killed":         {"#!/bin/bash\nkill -KILL $$\n", 137, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, trainJob(`{numNodes: 2, command: [app]}`), plain, follower)
			c.write("bin/follower", tc.broker)
			c.write("mnt/flux/failed-status", "9")
			status, out := c.start()
			assert.Equal(t, tc.want, status, out)
			log := c.read("log")
			assert.Equal(t, tc.sleeps, strings.Join(regexp.MustCompile(`sleep \d+`).FindAllString(log, -1), " "), log)
			assert.NotContains(t, log, "app")
			assert.NoFileExists(t, c.path("args"))
		})
	}
}

func TestAFollowerPassesTheEndOnToItsBroker(t *testing.T) {
	c := newContainer(t, trainJob(`{numNodes: 2, command: [app]}`), plain, follower)
	ready := c.path("ready")
	require.NoError(t, syscall.Mkfifo(ready, 0o600))
	c.write("bin/follower", `#!/bin/bash
/bin/sleep infinity &
trap 'echo stopped >>"$LOG"; kill $!; exit 1' TERM
echo >"${LOG%log}ready"
wait
`)
	status, out := c.init()
	require.Zero(t, status, out)
	cmd := c.bash(append([]string{c.entrypoint}, c.argv...)...)
	require.NoError(t, cmd.Start())
	_, err := os.ReadFile(ready) // until the broker has written to it
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 143, exit.ExitCode())
	assert.Contains(t, c.read("log"), "stopped\n")
}

func TestTheViewIsPrepared(t *testing.T) {
	c := newContainer(t, trainJob(`{numNodes: 2, command: [bash, -c, 'printf "%s\n" "$PYTHONPATH" "$(command -v flux)" >"$ARGS"']}`), plain, lead)
	c.env = append(c.env, "PYTHONPATH=/own")
	status, out := c.start()
	require.Zero(t, status, out)
	view := c.path("mnt/flux/view")
	assert.Equal(t, "/own:"+view+"/lib/python3.11/site-packages\n"+view+"/bin/flux\n", c.read("args"))
	assert.Equal(t, "#!/bin/true\n", c.read("mnt/flux/view/bin/python3"))
	assert.Equal(t, "lammps-node-0-[0-1]\n", c.read("mnt/flux/config/etc/flux/system/hostlist"))
	assert.Equal(t, "key", c.read("mnt/flux/config/etc/curve/curve.cert"))
	info, err := os.Stat(c.path("mnt/flux/config/etc/curve/curve.cert"))
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "only the user reads the key")
	assert.FileExists(t, c.path("mnt/flux/flux-operator-done.txt"))

	sourced, socket := c.run(c.bash("-c", `. mnt/flux/flux-view.sh; echo "$fluxsocket"`))
	assert.Zero(t, sourced)
	assert.Equal(t, "local://"+c.path("mnt/flux/config/run/flux/local")+"\n", socket)
	assert.Equal(t, "flux module remove sched-simple\nflux module load sched-fluxion-resource\nflux module load sched-fluxion-qmanager\n",
		c.read("mnt/flux/load-fluxion.sh"))
}

func TestAContainerThatRestartsBeginsAnew(t *testing.T) {
	c := newContainer(t, trainJob(`{command: [app]}`), plain, lead)
	c.env = append(c.env, "STATUS=4")
	status, out := c.start()
	require.Equal(t, 4, status, out)
	c.write("mnt/flux/config/var/lib/flux/content.sqlite", "old")
	c.env = append(c.env, "STATUS=0")
	status, out = c.entry()
	require.Zero(t, status, out)
	assert.NoFileExists(t, c.path("mnt/flux/failed-status"))
	assert.NoFileExists(t, c.path("mnt/flux/config/var/lib/flux/content.sqlite"))
}

func TestAnImageWithoutFluxFailsAtOnce(t *testing.T) {
	c := newContainer(t, trainJob(`{command: [app]}`), plain, lead)
	require.NoError(t, os.RemoveAll(c.path("opt/views")))
	status, out := c.init()
	assert.Equal(t, 1, status)
	assert.Contains(t, out, "FLUX_VIEW_IMAGE must name one of the flux-view images")
}
