package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/simulator"
)

// envOptions holds the simulator's options.
const envOptions = "GANGLINE_SCALE_OPTIONS"

// simulated are the simulator's options that its process is told.
type simulated struct {
	Seed     uint64
	Nodes    int
	CPUs     int // of each
	Latency  simulator.Latency
	Failures simulator.Failures
	Idle     time.Duration
}

// runSimulator is the process of the simulator.
func runSimulator(ctx context.Context) error {
	var told simulated
	if err := json.Unmarshal([]byte(os.Getenv(envOptions)), &told); err != nil {
		return fmt.Errorf("reading %s: %w", envOptions, err)
	}
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("looking up the own user: %w", err)
	}
	sim, err := simulator.New(simulator.Options{
		Seed: told.Seed, Nodes: told.Nodes, Node: simulator.NodeShape{CPUs: told.CPUs}, Latency: told.Latency, Failures: told.Failures, Idle: told.Idle, User: me.Username,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer sim.Close()
	l, err := net.Listen("unix", os.Getenv(envSocket))
	if err != nil {
		return fmt.Errorf("serving the simulator: %w", err)
	}
	return simulator.Serve(ctx, l, sim)
}

// startSimulator starts it as the jobs' user, and waits until it answers.
func startSimulator(ctx context.Context, dir string, uid, gid int, o simulated) (client simulator.Client, stop func() error, err error) {
	client = simulator.Client{Socket: filepath.Join(dir, "simulator.sock")}
	told, err := json.Marshal(o)
	if err != nil {
		return client, nil, fmt.Errorf("starting the simulator: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return client, nil, fmt.Errorf("finding this program's file: %w", err)
	}
	program := filepath.Join(dir, "simulator")
	if err := copyProgram(self, program); err != nil {
		return client, nil, err
	}
	log, err := os.Create(filepath.Join(dir, "simulator.log"))
	if err != nil {
		return client, nil, fmt.Errorf("starting the simulator: %w", err)
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd := exec.Command(program)
	cmd.Env = []string{envPart + "=" + partSimulator, envSocket + "=" + client.Socket, envOptions + "=" + string(told)}
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // they are the system's
	}
	exited := make(chan struct{})
	if err := harness.StartOnThread(cmd, func() { close(exited) }); err != nil {
		return client, nil, fmt.Errorf("starting the simulator: %w", err)
	}
	stop = func() error {
		err := cmd.Process.Kill()
		<-exited
		if errors.Is(err, os.ErrProcessDone) {
			return nil
		}
		return err
	}
	err = until(ctx, 10*time.Second, "the simulator answers", func() error {
		_, err := client.Stats(ctx)
		return err
	})
	if err != nil {
		return client, nil, errors.Join(err, stop())
	}
	return client, stop, nil
}
