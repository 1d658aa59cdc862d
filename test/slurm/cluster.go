package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gangline/gangline/test/slurm/internal/plan"
	"github.com/gangline/gangline/test/slurm/internal/supervisor"
)

// Cluster is a running dev Slurm.
type Cluster struct {
	plan     plan.Plan
	user     account
	lifeline io.Closer // its end stops a cluster that is not detached
}

type (
	// Status is what runs; see Cluster.Status.
	Status = supervisor.Status
	// MachineStatus is one node, or the head.
	MachineStatus = supervisor.MachineStatus
	// DaemonStatus is one of Slurm's daemons.
	DaemonStatus = supervisor.DaemonStatus
)

// ErrRunning says that the directory has a running cluster.
var ErrRunning = supervisor.ErrRunning

// ErrNotRunning says that the cluster has stopped or died.
var ErrNotRunning = supervisor.ErrNotRunning

// ErrNotInstalled says that Slurm, or something it needs, is not on this machine.
var ErrNotInstalled = supervisor.ErrNotInstalled

// Start starts a cluster and returns when every node is idle. When ctx ends before that,
// nothing is left running. Call Stop in the end.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	p, err := cfg.resolve()
	if err != nil {
		return nil, fmt.Errorf("configure the dev Slurm: %w", err)
	}
	if err := checkMachine(p); err != nil {
		return nil, err
	}
	owner, err := ensureUser(ctx, p.User, p.UID)
	if err != nil {
		return nil, err
	}
	p.UID, p.GID = owner.uid, owner.gid
	progress := cfg.Progress
	if progress == nil {
		progress = io.Discard
	}
	lifeline, err := startSupervisor(ctx, p, progress)
	if err != nil {
		err = fmt.Errorf("start the dev Slurm: %w", err)
		if !p.Detach { // the error has the logs' last words
			err = errors.Join(err, removeEnded(p.Dir))
		}
		return nil, err
	}
	c, err := Attach(p.Dir)
	if err != nil {
		lifeline.Close()
		return nil, err
	}
	if p.Detach {
		return c, lifeline.Close()
	}
	c.lifeline = lifeline
	return c, nil
}

// startSupervisor starts the process that owns the cluster, and waits until the cluster
// is up. Closing the returned lifeline ends a cluster that is not detached.
func startSupervisor(ctx context.Context, p plan.Plan, progress io.Writer) (io.Closer, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the plan: %w", err)
	}
	events, childEvents, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer events.Close()
	childInput, lifeline, err := os.Pipe()
	if err != nil {
		childEvents.Close()
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{supervisor.Name, p.Dir}
	cmd.Env = []string{"PATH=" + supervisor.SystemPath}
	cmd.Dir = "/"
	cmd.Stdin = childInput
	cmd.ExtraFiles = []*os.File{childEvents}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	childInput.Close()
	childEvents.Close()
	if err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // its events and its lock tell how it fares
	stop := context.AfterFunc(ctx, func() { lifeline.Close() })
	_, err = lifeline.Write(data)
	if err == nil {
		err = follow(events, progress)
	}
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		lifeline.Close()
		<-ended // it has taken down what there was
		return nil, err
	}
	return lifeline, nil
}

// follow reads events until the cluster is up or has failed.
func follow(events io.Reader, progress io.Writer) error {
	for input := json.NewDecoder(events); ; {
		var e supervisor.Event
		if err := input.Decode(&e); err != nil {
			return fmt.Errorf("the supervisor ended early: %w", err)
		}
		switch {
		case e.Ready:
			return nil
		case e.Error != "":
			return errors.New(e.Error)
		}
		fmt.Fprintln(progress, e.Step)
	}
}

// Attach finds the running cluster in dir.
func Attach(dir string) (*Cluster, error) {
	p, err := plan.Load(dir)
	if err != nil {
		return nil, err
	}
	owner, err := lookUp(p.User)
	if err != nil {
		return nil, err
	}
	return &Cluster{plan: p, user: owner}, nil
}

// Stop takes the cluster down and removes its files.
func (c *Cluster) Stop(ctx context.Context) error {
	err := Down(ctx, c.plan.Dir, false)
	if c.lifeline != nil {
		c.lifeline.Close()
	}
	return err
}

// Down takes down the cluster in dir, whatever is left of it. Its files go too, unless
// keepFiles is set; files that no cluster made stay. Doing it twice does no harm.
func Down(ctx context.Context, dir string, keepFiles bool) error {
	dir, err := realDir(dir)
	if err != nil {
		return err
	}
	if err := supervisor.Stop(ctx, dir); err != nil {
		return fmt.Errorf("take down the dev Slurm in %s: %w", dir, err)
	}
	if keepFiles {
		return nil
	}
	if err := supervisor.Remove(dir); err != nil {
		return fmt.Errorf("remove the dev Slurm in %s: %w", dir, err)
	}
	return nil
}

// RemoveLeft removes the files of clusters in directories of their names that have ended
// with the program that started them, when that was killed.
func RemoveLeft() error {
	dirs, err := filepath.Glob(filepath.Join(baseDir, "*"))
	if err != nil {
		return fmt.Errorf("look for left files: %w", err)
	}
	var failed []error
	for _, dir := range dirs {
		if p, err := plan.Load(dir); err == nil && !p.Detach {
			failed = append(failed, removeEnded(dir))
		}
	}
	return errors.Join(failed...)
}

// removeEnded removes the files of a cluster that does not run any more; one that runs is
// somebody's.
func removeEnded(dir string) error {
	if err := supervisor.Remove(dir); err != nil && !errors.Is(err, ErrRunning) {
		return fmt.Errorf("remove the dev Slurm in %s: %w", dir, err)
	}
	return nil
}

// Status tells which machines and daemons run.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	return c.order(ctx, supervisor.Request{Op: supervisor.OpStatus})
}

func (c *Cluster) order(ctx context.Context, req supervisor.Request) (Status, error) {
	st, err := supervisor.Call(ctx, c.plan.ControlSocket(), req)
	if err != nil {
		return st, fmt.Errorf("dev Slurm %s: %s: %w", c.plan.Name, strings.TrimSpace(string(req.Op)+" "+req.Node), err)
	}
	return st, nil
}
