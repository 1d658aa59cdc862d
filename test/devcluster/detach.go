package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// supervisorLog is the name of the log of a detached `up`.
const supervisorLog = "up"

// detach starts `up` in the background, shows its progress and returns when the cluster is ready.
func detach(ctx context.Context, l layout, o upOptions) error {
	// The child takes the lock for good; this keeps its log from replacing that of a cluster that is running.
	lock, err := l.lockForUp(ctx)
	if err != nil {
		return err
	}
	if err := lock.Close(); err != nil {
		return fmt.Errorf("release the cluster's lock: %w", err)
	}
	child, lines, logPath, err := startDetached(l, o)
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- child.Wait() }()
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()

	// The pipe ends when the child says so or is gone.
	scanner := bufio.NewScanner(lines)
	for scanner.Scan() {
		fmt.Fprintln(os.Stderr, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the progress of `up`: %w", err)
	}
	s, err := l.readState()
	if err == nil && s.Phase == phaseReady && s.Supervisor.PID == child.Process.Pid && ctx.Err() == nil {
		fmt.Println(l.kubeconfig())
		return nil
	}
	<-exited
	if ctx.Err() != nil {
		return errors.New("interrupted; the cluster was ended")
	}
	return l.explainExit(child.Process.Pid, logPath)
}

// explainExit says why a detached `up` ended before it was ready.
func (l layout) explainExit(pid int, logPath string) error {
	s, err := l.readState()
	switch {
	case err == nil && s.Supervisor.PID == pid && s.Phase == phaseFailed:
		return errors.New(s.Error)
	case err == nil && s.Supervisor.PID == pid && s.Phase == phaseStopped:
		return errors.New("the cluster was ended before it was ready")
	default:
		return fmt.Errorf("the cluster did not start; the end of %s:\n%s", logPath, tail(logPath))
	}
}

// startDetached starts `up` apart from the terminal, so that it outlives it, with its messages in a log and its
// progress also in the pipe that is returned.
func startDetached(l layout, o upOptions) (child *exec.Cmd, progress *os.File, logPath string, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, "", fmt.Errorf("find this program's own file: %w", err)
	}
	if err := os.MkdirAll(l.logsDir(), 0o755); err != nil {
		return nil, nil, "", fmt.Errorf("make the folder for logs: %w", err)
	}
	logPath = l.log(supervisorLog)
	log, err := os.Create(logPath)
	if err != nil {
		return nil, nil, "", fmt.Errorf("open the log of `up`: %w", err)
	}
	defer func() { _ = log.Close() }()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, "", fmt.Errorf("make a pipe for the progress: %w", err)
	}
	defer func() { _ = writer.Close() }()

	// The first extra file is number 3 in the child.
	child = exec.Command(program, append(o.upArgs(l), "--progress-fd=3")...)
	child.Stdout = log
	child.Stderr = log
	child.ExtraFiles = []*os.File{writer}
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		_ = reader.Close()
		return nil, nil, "", fmt.Errorf("start `up` in the background: %w", err)
	}
	return child, reader, logPath, nil
}

// upArgs is the command line that makes the same options again, without --detach.
func (o upOptions) upArgs(l layout) []string {
	args := []string{
		"up",
		"--dir=" + l.dir,
		"--port=" + strconv.Itoa(o.port),
		"--fresh=" + strconv.FormatBool(o.fresh),
		"--timeout=" + o.timeout.String(),
		"--verbosity=" + strconv.Itoa(o.tuning.verbosity),
		"--feature-gates=" + o.tuning.featureGates,
		"--runtime-config=" + o.tuning.runtimeConfig,
	}
	if len(o.extraIPs) > 0 {
		var ips []string
		for _, ip := range o.extraIPs {
			ips = append(ips, ip.String())
		}
		args = append(args, "--listen-extra="+strings.Join(ips, ","))
	}
	if o.respawn {
		args = append(args, "--respawn")
	}
	for _, user := range o.auditUsers {
		args = append(args, "--audit-users="+user)
	}
	return args
}
