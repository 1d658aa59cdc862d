package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// EventsFD is where the supervisor writes its events.
const EventsFD = 3

type supervisor struct {
	plan       plan.Plan
	log        *slog.Logger
	events     *json.Encoder
	ready      atomic.Bool
	stop       context.CancelCauseFunc
	lock       *os.File
	subnet     io.Closer
	listener   net.Listener
	orders     chan order
	head       *node
	nodes      []*node
	munge      *machine.Process
	controller *machine.Process
	rest       *machine.Process // nil where there is none, as the next two
	database   *machine.Process
	accounting *machine.Process
}

// Run is the life of a supervisor. Its standard input brings the plan, then nothing: its
// end means that the program that started the cluster is gone.
func Run([]string) error {
	events := os.NewFile(EventsFD, "events")
	unix.CloseOnExec(EventsFD)
	s := &supervisor{
		log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
		events: json.NewEncoder(events),
		orders: make(chan order),
	}
	input := json.NewDecoder(os.Stdin)
	if err := input.Decode(&s.plan); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	signals, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer cancel()
	ctx, stop := context.WithCancelCause(signals)
	defer stop(nil)
	s.stop = stop
	go s.watchLifeline()

	err := s.bringUp(ctx)
	if err != nil {
		err = errors.Join(err, s.tearDown())
		s.tell(Event{Error: err.Error()})
		return err
	}
	s.ready.Store(true)
	s.tell(Event{Ready: true})
	s.serve(ctx)
	return s.tearDown()
}

// watchLifeline stops the cluster with the program that started it, unless it was asked to
// stay and has come up.
func (s *supervisor) watchLifeline() {
	_, err := io.Copy(io.Discard, os.Stdin)
	if s.plan.Detach && s.ready.Load() {
		return
	}
	s.stop(errors.Join(errors.New("the program that started the cluster has ended"), err))
}

func (s *supervisor) step(what string) {
	s.log.Info(what)
	s.tell(Event{Step: what})
}

func (s *supervisor) tell(e Event) {
	if err := s.events.Encode(e); err != nil {
		s.log.Warn("nobody listens", "error", err)
	}
}

// bringUp goes from nothing to idle nodes.
func (s *supervisor) bringUp(ctx context.Context) error {
	if err := s.prepare(); err != nil {
		return err
	}
	s.step("network " + s.plan.CIDR() + ", outside is " + s.plan.RootAddr())
	if err := s.startMachine(s.head); err != nil {
		return err
	}
	if err := connectHead(s.plan, s.head.machine); err != nil {
		return err
	}
	s.step("starting the head's daemons and the nodes' namespaces")
	daemons := make(chan error, 1)
	go func() {
		err := s.startMunge(ctx)
		if err == nil && s.plan.Accounting {
			err = s.startAccounting(ctx)
		}
		if err == nil {
			err = s.startController(ctx)
		}
		if err == nil && s.plan.REST {
			err = s.startREST(ctx)
		}
		daemons <- err
	}()
	var err error
	for _, n := range s.nodes {
		if err = s.startNode(n); err != nil {
			break
		}
	}
	if err := errors.Join(<-daemons, err); err != nil {
		return err
	}
	s.step("starting slurmd on the nodes")
	for _, n := range s.nodes {
		if err := s.startSlurmd(n); err != nil {
			return err
		}
	}
	s.step("waiting for idle nodes")
	if err := s.awaitIdle(ctx); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return s.listen()
}

// prepare claims the directory and a network, and writes the files.
func (s *supervisor) prepare() error {
	if err := os.MkdirAll(s.plan.Dir, 0o755); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := checkOurs(s.plan.Dir); err != nil {
		return err // before a lock is left in somebody's folder
	}
	var err error
	if s.lock, err = Lock(s.plan); err != nil {
		return err
	}
	if err := RemoveFiles(s.plan.Dir); err != nil {
		return err
	}
	if s.subnet, err = ClaimSubnet(&s.plan); err != nil {
		return err
	}
	s.head = &node{name: plan.Head}
	for i, name := range s.plan.NodeNames() {
		s.nodes = append(s.nodes, &node{number: i + 1, name: name})
	}
	if err := s.plan.Save(); err != nil {
		return err
	}
	if s.plan.Cgroup {
		if err := s.checkFreeCgroups(); err != nil {
			return err
		}
	}
	if err := makeFiles(s.plan); err != nil {
		return err
	}
	return s.openLog()
}

// openLog sends the log, and what the Go runtime prints, to a file from here on.
func (s *supervisor) openLog() error {
	f, err := os.OpenFile(s.plan.LogFile("supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer f.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("redirect the supervisor's output: %w", err)
		}
	}
	return nil
}

// tearDown leaves nothing but files.
func (s *supervisor) tearDown() error {
	if s.head == nil {
		return nil // nothing has been started
	}
	s.log.Info("taking the cluster down")
	if s.listener != nil {
		s.listener.Close()
	}
	var failed []error
	for _, n := range append(s.nodes, s.head) {
		if n.up() {
			n.machine.Kill()
		}
		if s.plan.Cgroup {
			failed = append(failed, removeCgroups(n.name))
		}
	}
	failed = append(failed, deleteRootLink(s.plan))
	return errors.Join(append(failed, removeSockets(s.plan))...)
}

func removeSockets(p plan.Plan) error {
	var failed []error
	for _, path := range []string{
		p.ControlSocket(), p.MungeSocket(), p.MungeSocket() + ".lock", p.RESTSocket(), p.DatabaseSocket(),
	} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, fmt.Errorf("remove a socket: %w", err))
		}
	}
	return errors.Join(failed...)
}
