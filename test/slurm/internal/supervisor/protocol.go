package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Event is one line of what a supervisor tells the program that started it.
type Event struct {
	// Step is what is being done now.
	Step string `json:",omitempty"`
	// Ready ends the start: every node is idle.
	Ready bool `json:",omitempty"`
	// Error ends the start: nothing is left running.
	Error string `json:",omitempty"`
}

// Op is an order to a running supervisor.
type Op string

// The orders.
const (
	OpStatus          Op = "status"
	OpStop            Op = "stop"
	OpCrash           Op = "crash"
	OpRestart         Op = "restart"
	OpKillDaemon      Op = "kill-daemon"
	OpStopController  Op = "stop-controller"
	OpStartController Op = "start-controller"
	OpStopREST        Op = "stop-rest"
	OpStartREST       Op = "start-rest"
)

// Request is one order.
type Request struct {
	Op Op
	// Node is the node meant by OpCrash, OpRestart and OpKillDaemon.
	Node string `json:",omitempty"`
	// Kill makes OpStopController a SIGKILL.
	Kill bool `json:",omitempty"`
}

// Response answers a Request.
type Response struct {
	Error  string `json:",omitempty"`
	Status Status
}

// Status is what runs.
type Status struct {
	// PID is the supervisor.
	PID        int
	Controller DaemonStatus
	Munge      DaemonStatus
	// REST, Database and Accounting (slurmdbd) run only where they were asked for.
	REST, Database, Accounting DaemonStatus
	// Head is the head's machine, Nodes are the nodes' in order.
	Head  MachineStatus
	Nodes []MachineStatus
}

// MachineStatus is one set of namespaces; PID is its first process, 0 when it is down.
type MachineStatus struct {
	Name, Addr string
	PID        int
	Slurmd     DaemonStatus
}

// DaemonStatus is one daemon; PID is 0 when it does not run.
type DaemonStatus struct {
	PID int
	// Ended is how it ended, if it did.
	Ended string `json:",omitempty"`
}

// ErrNotRunning says that nothing supervises the cluster (any more).
var ErrNotRunning = errors.New("the cluster is not running")

// Call gives one order to the supervisor behind socket and waits for its answer.
func Call(ctx context.Context, socket string, req Request) (Status, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return Status{}, ErrNotRunning
	}
	if err != nil {
		return Status{}, fmt.Errorf("reach the supervisor: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return Status{}, fmt.Errorf("order %q: %w", req.Op, errors.Join(err, ctx.Err()))
	}
	var resp Response
	if err := json.NewDecoder(conn).Decode(&resp); err != nil {
		return Status{}, fmt.Errorf("answer to %q: %w", req.Op, errors.Join(err, ctx.Err()))
	}
	if resp.Error != "" {
		return resp.Status, errors.New(resp.Error)
	}
	return resp.Status, nil
}
