package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// startWithin is how long a daemon may take to answer.
const startWithin = 30 * time.Second

// order is a request on its way to the main thread.
type order struct {
	req   Request
	reply chan Response
}

func (s *supervisor) listen() error {
	var err error
	if s.listener, err = net.Listen("unix", s.plan.ControlSocket()); err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	if err := os.Chmod(s.plan.ControlSocket(), 0o600); err != nil {
		return fmt.Errorf("close the control socket to others: %w", err)
	}
	return nil
}

// serve obeys orders, one at a time and on the calling thread, until the cluster is to stop.
func (s *supervisor) serve(ctx context.Context) {
	go s.accept(ctx)
	for {
		select {
		case <-ctx.Done():
			s.log.Info("stopping", "cause", context.Cause(ctx))
			return
		case <-s.head.machine.Done():
			s.log.Error("the head is gone: stopping")
			return
		case o := <-s.orders:
			o.reply <- s.obey(ctx, o.req)
		}
	}
}

func (s *supervisor) accept(ctx context.Context) {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Error("accept an order", "error", err)
			s.stop(fmt.Errorf("accept an order: %w", err))
			return
		}
		go func() {
			defer conn.Close()
			if err := s.answer(ctx, conn); err != nil {
				s.log.Warn("answer an order", "error", err)
			}
		}()
	}
}

func (s *supervisor) answer(ctx context.Context, conn net.Conn) error {
	const patience = 10 * time.Second
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	var req Request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	o := order{req: req, reply: make(chan Response, 1)}
	resp := Response{Error: "the cluster is stopping"}
	select {
	case s.orders <- o:
		resp = <-o.reply
	case <-ctx.Done():
	}
	if err := json.NewEncoder(conn).Encode(resp); err != nil {
		return fmt.Errorf("send an answer: %w", err)
	}
	if req.Op == OpStop {
		s.stop(errors.New("asked to stop")) // not before the answer is out
	}
	return nil
}

func (s *supervisor) obey(ctx context.Context, req Request) Response {
	s.log.Info("order", "op", req.Op, "node", req.Node)
	err := s.carryOut(ctx, req)
	resp := Response{Status: s.status()}
	if err != nil {
		resp.Error = err.Error()
		s.log.Warn("order failed", "op", req.Op, "error", err)
	}
	return resp
}

func (s *supervisor) carryOut(ctx context.Context, req Request) error {
	switch req.Op {
	case OpStatus, OpStop:
		return nil
	case OpCrash, OpRestart, OpKillDaemon:
		n, err := s.find(req.Node)
		if err != nil {
			return err
		}
		return map[Op]func(*node) error{OpCrash: s.crash, OpRestart: s.restart, OpKillDaemon: s.killDaemon}[req.Op](n)
	case OpStopController:
		return s.stopController(req.Kill)
	case OpStartController:
		ctx, cancel := context.WithTimeout(ctx, startWithin)
		defer cancel()
		return s.startController(ctx)
	case OpStopREST:
		return s.stopREST()
	case OpStartREST:
		ctx, cancel := context.WithTimeout(ctx, startWithin)
		defer cancel()
		return s.startREST(ctx)
	}
	return fmt.Errorf("unknown order %q", req.Op)
}

func (s *supervisor) status() Status {
	st := Status{
		PID:        os.Getpid(),
		Controller: daemonStatus(s.controller),
		Munge:      daemonStatus(s.munge),
		REST:       daemonStatus(s.rest),
		Database:   daemonStatus(s.database),
		Accounting: daemonStatus(s.accounting),
		Head:       MachineStatus{Name: s.head.name, Addr: s.plan.HeadAddr(), PID: s.head.pid()},
	}
	for _, n := range s.nodes {
		st.Nodes = append(st.Nodes, MachineStatus{
			Name: n.name, Addr: s.plan.NodeAddr(n.number), PID: n.pid(), Slurmd: daemonStatus(n.slurmd),
		})
	}
	return st
}
