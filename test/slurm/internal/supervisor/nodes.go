package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/plan"
)

const procDir = "proc"

// node is one computer of the cluster; machine is nil until it has first started.
type node struct {
	number  int // 0 is the head
	name    string
	machine *machine.Machine
	slurmd  *machine.Process
}

func (n *node) up() bool { return n.machine != nil && n.machine.Running() }

// pid is the first process of the node's machine, 0 when it is down.
func (n *node) pid() int {
	if !n.up() {
		return 0
	}
	return n.machine.PID()
}

// startMachine makes a node's namespaces, with a new boot id each time.
func (s *supervisor) startMachine(n *node) error {
	if err := os.WriteFile(s.plan.NodeFile(n.name, "boot_id"), []byte(newBootID()+"\n"), 0o444); err != nil {
		return fmt.Errorf("write the boot id of %s: %w", n.name, err)
	}
	out, err := os.OpenFile(s.plan.LogFile("init."+n.name+".out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", n.name, err)
	}
	defer out.Close()
	n.machine, err = machine.Start(machine.Spec{
		Owner:      s.plan.Dir,
		Hostname:   n.name,
		BootIDFile: s.plan.NodeFile(n.name, "boot_id"),
		HostsFile:  s.plan.HostsFile(),
		ResolvFile: s.plan.ResolvFile(),
		ProcDir:    s.plan.NodeFile(n.name, procDir),
	}, out)
	return err
}

// startNode brings a node up to a connected machine without Slurm.
func (s *supervisor) startNode(n *node) error {
	if n.machine != nil { // the cable of one that died by itself may still be there
		if err := disconnectNode(n.number, s.head.machine); err != nil {
			return err
		}
	}
	if err := s.startMachine(n); err != nil {
		return err
	}
	return connectNode(s.plan, n.number, s.head.machine, n.machine)
}

// crash is a power cut: the network goes first, then every process at once.
func (s *supervisor) crash(n *node) error {
	if !n.up() {
		return fmt.Errorf("%s is down already", n.name)
	}
	err := disconnectNode(n.number, s.head.machine)
	n.machine.Kill()
	s.log.Info("crashed", "node", n.name)
	if s.plan.Cgroup {
		err = errors.Join(err, removeCgroups(n.name))
	}
	return err
}

// restart switches a node on, and off before that if it is on.
func (s *supervisor) restart(n *node) error {
	if n.up() {
		if err := s.crash(n); err != nil {
			return err
		}
	}
	if err := s.startNode(n); err != nil {
		return err
	}
	return s.startSlurmd(n)
}

// killDaemon ends a node's slurmd with SIGKILL and starts another.
func (s *supervisor) killDaemon(n *node) error {
	if !n.up() || !running(n.slurmd) {
		return fmt.Errorf("slurmd on %s does not run", n.name)
	}
	if err := s.endDaemon(n.slurmd, unix.SIGKILL); err != nil {
		return err
	}
	return s.startSlurmd(n)
}

// awaitIdle waits until Slurm says that all nodes are idle.
func (s *supervisor) awaitIdle(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		states, err := NodeStates(ctx, s.plan)
		waiting := ""
		for _, n := range s.nodes {
			if states[n.name] != "idle" {
				waiting = n.name
			}
			if !running(n.slurmd) {
				return fmt.Errorf("slurmd on %s ended at once: %s", n.name, s.lastWords("slurmd."+n.name))
			}
		}
		if err == nil && waiting == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for idle nodes: %w; %s is %q: %s", errors.Join(ctx.Err(), err), waiting,
				states[waiting], s.lastWords("slurmd."+waiting))
		case <-tick.C:
		}
	}
}

func (s *supervisor) find(name string) (*node, error) {
	if i := s.plan.NodeNumber(name); i > 0 {
		return s.nodes[i-1], nil
	}
	if name == plan.Head {
		return nil, errors.New("the head cannot be crashed alone; stop and start the controller instead")
	}
	return nil, fmt.Errorf("no node %q; there are %v", name, s.plan.NodeNames())
}

func newBootID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
