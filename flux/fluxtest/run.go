package fluxtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gangline/gangline/flux"
)

// The exit codes of a task that could not be started. 127: no such program.
const (
	codeNotFound   = 127
	codeNotAllowed = 126
)

// pipesDelay bounds the wait for the output of what a task has left behind.
const pipesDelay = time.Second

// run gives a job its places and starts its tasks.
func (j *job) run(places []place) {
	j.places = places
	duration := time.Duration(j.spec.Attributes.System.Duration * float64(time.Second))
	r := newResourceSet(places)
	now := time.Now()
	r.Execution.Start = seconds(now)
	if duration > 0 {
		j.expires = now.Add(duration)
		r.Execution.Expiration = seconds(j.expires)
	}
	j.r = marshaled(r)
	j.post("alloc", map[string]any{"annotations": map[string]any{}})
	j.enter(flux.StateRun)
	output := newEventlog()
	j.logs[flux.LogOutput] = output
	j.logs[flux.LogExec] = newEventlog()
	j.logs[flux.LogExec].add(line(now, "init", nil))
	output.add(line(now, "header", map[string]any{"version": 1, "encoding": map[string]string{"stdout": "UTF-8", "stderr": "UTF-8"}}))
	j.post("start", nil)
	j.started = true
	if duration > 0 {
		b := j.broker
		j.limit = time.AfterFunc(duration, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if j.state == flux.StateRun {
				j.fail("timeout", 0, "resource allocation expired")
			}
		})
	}
	j.startTasks()
}

func (j *job) startTasks() {
	j.commands = make([]*exec.Cmd, j.shape.total())
	rank := 0
	for _, p := range j.places {
		for local := range p.slots {
			if err := j.startTask(rank, local, p); err != nil {
				code := codeNotAllowed
				if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
					code = codeNotFound
				}
				j.status = max(j.status, code<<8)
				j.fail("exec", 0, fmt.Sprintf("task %d (host %s): start failed: %v", rank, p.node.Name, err))
				if j.running == 0 {
					j.finish()
				}
				return
			}
			rank++
		}
	}
	j.logs[flux.LogExec].add(line(time.Now(), "shell.start", nil))
}

func (j *job) startTask(rank, local int, p place) error {
	system := j.spec.Attributes.System
	args := make([]string, 0, len(j.spec.Tasks[0].Command))
	fill := j.templates(rank, p)
	for _, arg := range j.spec.Tasks[0].Command {
		args = append(args, fill.Replace(arg))
	}
	env, err := j.environment(rank, local, p)
	if err != nil {
		return err
	}
	name := args[0]
	if !strings.Contains(name, "/") {
		if name, err = lookPath(name, system.Environment["PATH"]); err != nil {
			return err
		}
	}
	c := &exec.Cmd{
		Path: name, Args: args, Env: env, Dir: system.Cwd, WaitDelay: pipesDelay,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if owner := j.broker.cfg.Owner; owner != nil {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(owner.UID), Gid: uint32(owner.GID)} //nolint:gosec // of the system
	}
	closeFiles, err := j.connect(c, rank, fill)
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return errors.Join(err, closeFiles())
	}
	j.commands[rank] = c
	j.running++
	j.broker.tasks.Go(func() { j.await(c, rank, closeFiles) })
	return nil
}

// await waits for a task's end.
func (j *job) await(c *exec.Cmd, rank int, closeFiles func() error) {
	// How it ended is in the state that is read below.
	_ = c.Wait()
	_ = closeFiles()
	b := j.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stream := range []string{"stdout", "stderr"} {
		j.print(map[string]any{"stream": stream, "rank": strconv.Itoa(rank), "eof": true})
	}
	j.commands[rank] = nil
	j.running--
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok {
		code := flux.WaitStatus(status).Code()
		j.status = max(j.status, code<<8)
		j.heedExit(rank, code)
	}
	if j.running == 0 {
		j.finish()
	}
}

// heedExit does what the shell's option exit-on-error asks for: only the first exit of a
// task counts.
func (j *job) heedExit(rank, code int) {
	first := !j.anyExited
	j.anyExited = true
	if !first || code == 0 || j.running == 0 || j.state != flux.StateRun || j.shellOption("exit-on-error") != float64(1) {
		return
	}
	j.fail("exec", 0, fmt.Sprintf("%s: task rank %d failed (Exit %d) and exit-on-error is set",
		filepath.Base(j.spec.Tasks[0].Command[0]), rank, code))
}

// shellOption is what the jobspec says of an option of the shell's, nil for nothing.
func (j *job) shellOption(name string) any {
	if shell := j.spec.Attributes.System.Shell; shell != nil {
		return shell.Options[name]
	}
	return nil
}

func lookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, syscall.ENOENT)
}

func (j *job) templates(rank int, p place) *strings.Replacer {
	return strings.NewReplacer(
		"{{id}}", j.id.String(), "{{id.f58}}", j.id.String(), "{{id.f58plain}}", j.id.Plain(),
		"{{id.dec}}", strconv.FormatUint(uint64(j.id), 10), "{{name}}", j.name,
		"{{taskid}}", strconv.Itoa(rank), "{{node.name}}", p.node.Name,
		"{{size}}", strconv.Itoa(j.shape.total()), "{{nnodes}}", strconv.Itoa(len(j.places)), "{{tmpdir}}", j.tmpdir(),
	)
}

func (j *job) tmpdir() string { return filepath.Join(j.broker.cfg.Dir, "jobtmp-"+j.id.Plain()) }

func (j *job) environment(rank, local int, p place) ([]string, error) {
	if err := errors.Join(os.MkdirAll(j.tmpdir(), 0o700), j.broker.give(j.tmpdir())); err != nil {
		return nil, err
	}
	env := []string{
		"FLUX_JOB_ID=" + j.id.String(), "FLUX_JOB_TMPDIR=" + j.tmpdir(), "FLUX_URI=" + j.broker.URI(),
		"FLUX_JOB_SIZE=" + strconv.Itoa(j.shape.total()), "FLUX_JOB_NNODES=" + strconv.Itoa(len(j.places)),
		"FLUX_TASK_RANK=" + strconv.Itoa(rank), "FLUX_TASK_LOCAL_ID=" + strconv.Itoa(local),
	}
	for name, value := range j.spec.Attributes.System.Environment {
		env = append(env, name+"="+value)
	}
	if gpus := j.gpus(local, p); len(gpus) > 0 {
		var list []string
		for _, gpu := range gpus {
			list = append(list, strconv.Itoa(gpu))
		}
		env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(list, ","))
	}
	if j.broker.cfg.TaskEnv != nil {
		env = append(env, j.broker.cfg.TaskEnv(p.node.Name)...)
	}
	return env, nil
}

// gpus are those that a task sees: all of its job's on the node, or its own with the
// shell's option gpu-affinity=per-task.
func (j *job) gpus(local int, p place) []int {
	if j.shellOption("gpu-affinity") == "per-task" {
		return p.gpus[local*j.shape.gpus : (local+1)*j.shape.gpus]
	}
	return p.gpus
}

// connect sets where a task's output goes: to a file, or to the job's eventlog.
func (j *job) connect(c *exec.Cmd, rank int, fill *strings.Replacer) (closeFiles func() error, err error) {
	var files []io.Closer
	closeFiles = func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	for name, to := range map[string]*io.Writer{"stdout": &c.Stdout, "stderr": &c.Stderr} {
		path := fill.Replace(j.outputPath(name))
		if path == "" {
			*to = &outputWriter{job: j, stream: name, rank: strconv.Itoa(rank)}
			continue
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			err = j.broker.give(path)
		}
		if err != nil {
			return nil, errors.Join(err, closeFiles())
		}
		files = append(files, f)
		*to = f
	}
	return closeFiles, nil
}

// outputPath is the file that the shell's option output names for a stream. As in Flux,
// stderr follows stdout unless it has its own.
func (j *job) outputPath(stream string) string {
	output, _ := j.shellOption("output").(map[string]any)
	for _, name := range []string{stream, "stdout"} {
		if to, ok := output[name].(map[string]any); ok && to["type"] == "file" {
			path, _ := to["path"].(string)
			return path
		}
	}
	return ""
}

// outputWriter takes a task's output into the job's eventlog.
type outputWriter struct {
	job          *job
	stream, rank string
}

func (w *outputWriter) Write(data []byte) (int, error) {
	context := map[string]any{"stream": w.stream, "rank": w.rank, "data": string(data)}
	if !utf8.Valid(data) {
		context["data"], context["encoding"] = base64.StdEncoding.EncodeToString(data), "base64"
	}
	w.job.broker.mu.Lock()
	defer w.job.broker.mu.Unlock()
	w.job.print(context)
	return len(data), nil
}

func (j *job) print(context map[string]any) {
	if log := j.logs[flux.LogOutput]; log != nil && !log.done {
		log.add(line(time.Now(), "data", context))
	}
}
