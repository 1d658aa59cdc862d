package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gangline/gangline/translate"
)

// starter is the shell text around every agent. It is constant: names come as
// arguments. $1 and $2 are the task's stat and exit files, the rest is the
// agent's command line.
//
// The stat file is linked, complete, under its final name before anything runs:
// whoever comes second, after a manager's death between two steps, ends here. The
// signals are the agent's to handle; the starter stays to write down how it ended.
const starter = `
trap : HUP INT TERM
read -r stat </proc/$$/stat || exit 1
echo "$stat" >"$1.$$" || exit 1
ln "$1.$$" "$1" && rm "$1.$$" || { rm -f "$1.$$"; exit 1; }
exit=$2
shift 2
"$@"
status=$?
echo "$status" >"$exit.new" && mv "$exit.new" "$exit"
exit "$status"
`

// killed is the exit status of a task whose starter could not tell: 128 + SIGKILL.
const killed = 137

// task is one agent of a job, as its files and /proc show it.
type task struct {
	number int
	// dir is the job's directory in the state.
	dir string
}

func (t task) path(kind string) string {
	return filepath.Join(t.dir, strconv.Itoa(t.number)+"."+kind)
}

// process is the task's starter, and whether it has ever been started.
func (t task) process() (process, bool, error) {
	line, ok, err := readFile(t.path("stat"))
	if err != nil || !ok || line == barred {
		return process{}, false, err
	}
	p, err := parseStat(line)
	return p, err == nil, err
}

// hasTraces tells whether the task was started, or barred from that.
func (t task) hasTraces() bool {
	_, err := os.Stat(t.path("stat"))
	return err == nil
}

// barred is the content of the stat file of a task that will never start.
const barred = ""

// bar keeps a task from ever starting. If it has started meanwhile, it is left
// alone: its traces will show.
func (t task) bar() error {
	f, err := os.OpenFile(t.path("stat"), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keeping task %d from starting: %w", t.number, err)
	}
	return f.Close()
}

// progress is how far a task has come.
type progress int

const (
	unstarted progress = iota
	running
	ended
)

// progress tells how far the task has come, and the exit status of one that has
// ended. sameBoot tells whether the machine has run ever since the job started.
func (t task) progress(sameBoot bool) (progress, int, error) {
	p, started, err := t.process()
	if err != nil || !started {
		return unstarted, 0, err
	}
	if sameBoot && p.alive() {
		return running, 0, nil
	}
	text, written, err := readFile(t.path("exit")) // after the look at the process: it is written before its end
	if err != nil || !written {
		return ended, killed, err
	}
	status, err := strconv.Atoi(text)
	if err != nil {
		return ended, killed, fmt.Errorf("reading %s: %w", t.path("exit"), err)
	}
	return ended, status, nil
}

// start starts the task's agent, unless it was started before: then the starter
// ends at once. The agent is in a session of its own and outlives the manager.
// ended is called when the starter has ended, if the manager still lives.
func (t task) start(r translate.Request, env []string, ended func()) error {
	log, err := os.OpenFile(filepath.Join(r.Dir, "job.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the job's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the agent has its own
	cmd := exec.Command("/bin/sh", "-c", starter, "gangline-task", t.path("stat"), t.path("exit"),
		r.Agent, "serve", r.Dir)
	cmd.Dir = r.Dir
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting task %d: %w", t.number, err)
	}
	go func() {
		_ = cmd.Wait() // the exit file tells how it ended
		ended()
	}()
	return nil
}

// terminate asks the task for its end, with the grace that its pods have.
func (t task) terminate() error {
	p, started, err := t.process()
	if err != nil || !started {
		return err
	}
	return p.terminate()
}

// kill ends the task and all that came of it.
func (t task) kill() error {
	p, started, err := t.process()
	if err != nil || !started {
		return err
	}
	return p.kill()
}

// environment is the whole environment of a task's agent: nothing of the
// manager's own gets in.
func environment(base []string, j *job, number int) []string {
	p := j.Places[number]
	gpus := make([]string, len(p.GPUs))
	for i, g := range p.GPUs {
		gpus[i] = strconv.Itoa(g)
	}
	return append(base[:len(base):len(base)],
		"GANGLINE_WLM=local",
		"GANGLINE_JOB_ID="+j.ID,
		"GANGLINE_TASK="+strconv.Itoa(number),
		"GANGLINE_NODE="+p.Node,
		"GANGLINE_ADDRESS="+p.Address,
		"CUDA_VISIBLE_DEVICES="+strings.Join(gpus, ","),
	)
}

// tasks lists a job's tasks; it has none before it starts.
func (j *job) tasks(dir string) []task {
	all := make([]task, len(j.Places))
	for i := range all {
		all[i] = task{number: i, dir: dir}
	}
	return all
}

// each does something with all tasks, whatever becomes of the others.
func each(tasks []task, do func(task) error) error {
	var errs []error
	for _, t := range tasks {
		errs = append(errs, do(t))
	}
	return errors.Join(errs...)
}
