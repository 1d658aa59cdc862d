package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// phase is where a run stands.
type phase string

const (
	phaseStarting phase = "Starting"
	phaseReady    phase = "Ready"
	phaseStopped  phase = "Stopped"
	phaseFailed   phase = "Failed"
)

// state is the record of one run, for `down` and `status`. The lock, not this file, says whether the run is alive.
type state struct {
	Phase phase `json:"phase"`
	// Error says why the run failed.
	Error string `json:"error,omitempty"`
	// Supervisor is the `up` process.
	Supervisor processID `json:"supervisor"`
	// Server is the API server's URL on the loopback interface.
	Server     string             `json:"server,omitempty"`
	Started    time.Time          `json:"started"`
	ReadyAfter string             `json:"readyAfter,omitempty"`
	Components []componentProcess `json:"components,omitempty"`
}

type componentProcess struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
}

func (l layout) readState() (state, error) {
	var s state
	data, err := os.ReadFile(l.state())
	if err != nil {
		return s, fmt.Errorf("read the cluster's state: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read the cluster's state from %s: %w", l.state(), err)
	}
	return s, nil
}

func (l layout) writeState(s state) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's state: %w", err)
	}
	return writeFile(l.state(), append(data, '\n'), 0o644)
}

// processID tells a process from a later one that was given the same number.
type processID struct {
	PID int `json:"pid"`
	// StartTicks is the kernel's start time of the process, in ticks since boot.
	StartTicks uint64 `json:"startTicks"`
}

func currentProcess() (processID, error) {
	ticks, err := startTicks(os.Getpid())
	if err != nil {
		return processID{}, err
	}
	return processID{PID: os.Getpid(), StartTicks: ticks}, nil
}

func (p processID) alive() bool {
	if p.PID <= 0 {
		return false
	}
	ticks, err := startTicks(p.PID)
	return err == nil && ticks == p.StartTicks
}

// startTicks reads the start time (field 22) from /proc/PID/stat. A process that has ended but was not collected by
// its parent yet counts as not there.
func startTicks(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the start time of process %d: %w", pid, err)
	}
	// The second field, the command, may hold spaces and brackets, so counting begins after its closing bracket.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("read the start time of process %d: unexpected format", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("read the start time of process %d: it has ended", pid)
	}
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the start time of process %d: %w", pid, err)
	}
	return ticks, nil
}

// end asks the process to end, and after the given patience makes it end. It returns once the process is gone.
// A process file descriptor gives the event to wait for and cannot come to mean another process.
func (p processID) end(patience time.Duration) error {
	if p.PID <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find process %d: %w", p.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.alive() {
		return nil
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end process %d: %w", p.PID, err)
		}
		gone, err := waitReadable(fd, patience)
		if err != nil {
			return fmt.Errorf("wait for the end of process %d: %w", p.PID, err)
		}
		if gone {
			return nil
		}
	}
	return fmt.Errorf("process %d did not end within %s of being killed", p.PID, patience)
}

func waitReadable(fd int, patience time.Duration) (bool, error) {
	deadline := time.Now().Add(patience)
	for {
		remaining := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(remaining.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0, err
	}
}
