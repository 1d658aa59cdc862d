package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// service is the simulator at a socket. Its methods have the form that net/rpc asks for.
type service struct{ sim *Simulator }

// name is what the service is called on the wire.
const name = "Simulator"

// Nothing is an argument or an answer that says nothing.
type Nothing struct{}

// Answer is a submission's: a refusal has to come through as such.
type Answer struct{ ID, Refused string }

// Order is for a job.
type Order struct {
	Job      string
	ExitCode int32
}

// Submit is Simulator.Submit.
func (s *service) Submit(r translate.Request, a *Answer) (err error) {
	a.ID, err = s.sim.Submit(s.sim.life, r)
	if refused := (*wlm.RejectedError)(nil); errors.As(err, &refused) {
		a.Refused, err = refused.Message, nil
	}
	return err
}

// List is Simulator.List.
func (s *service) List(_ Nothing, jobs *[]wlm.Job) (err error) {
	*jobs, err = s.sim.List(s.sim.life)
	return err
}

// Cancel is Simulator.Cancel.
func (s *service) Cancel(o Order, _ *Nothing) error { return s.sim.Cancel(s.sim.life, "", o.Job) }

// Inventory is Simulator.Inventory.
func (s *service) Inventory(_ Nothing, inv *wlm.Inventory) (err error) {
	*inv, err = s.sim.Inventory(s.sim.life)
	return err
}

// Stats is Simulator.Stats.
func (s *service) Stats(_ Nothing, stats *Stats) error {
	*stats = s.sim.Stats()
	return nil
}

// EndPods is Simulator.EndPods.
func (s *service) EndPods(o Order, _ *Nothing) error { return s.sim.EndPods(o.Job, o.ExitCode) }

// Accounts is Simulator.Accounts.
func (s *service) Accounts(_ Nothing, all *map[string]Account) error {
	*all = s.sim.Accounts()
	return nil
}

// FailNode is Simulator.FailNode.
func (s *service) FailNode(node string, _ *Nothing) error { return s.sim.FailNode(node) }

// RestoreNode is Simulator.RestoreNode.
func (s *service) RestoreNode(node string, _ *Nothing) error { return s.sim.RestoreNode(node) }

// Serve answers Clients at a listener until the context ends.
func Serve(ctx context.Context, l net.Listener, s *Simulator) error {
	server := rpc.NewServer()
	if err := server.RegisterName(name, &service{s}); err != nil {
		return fmt.Errorf("serving the simulator: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		connection, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serving the simulator: %w", err)
		}
		go server.ServeConn(connection)
	}
}

// Client is a simulator in another process, at a unix socket.
type Client struct{ Socket string }

var _ wlm.Manager = Client{}

// Submit implements wlm.Manager.
func (c Client) Submit(ctx context.Context, r translate.Request) (string, error) {
	var a Answer
	if err := c.call(ctx, "Submit", r, &a); err != nil {
		return "", err
	}
	if a.Refused != "" {
		return "", &wlm.RejectedError{Message: a.Refused}
	}
	return a.ID, nil
}

// List implements wlm.Manager.
func (c Client) List(ctx context.Context) (jobs []wlm.Job, err error) {
	return jobs, c.call(ctx, "List", Nothing{}, &jobs)
}

// Cancel implements wlm.Manager.
func (c Client) Cancel(ctx context.Context, _, jobID string) error {
	return c.call(ctx, "Cancel", Order{Job: jobID}, &Nothing{})
}

// Inventory implements wlm.Manager.
func (c Client) Inventory(ctx context.Context) (inv wlm.Inventory, err error) {
	return inv, c.call(ctx, "Inventory", Nothing{}, &inv)
}

// Name implements wlm.Manager.
func (c Client) Name(context.Context) (string, error) { return "simulator", nil }

// Stats are the simulator's.
func (c Client) Stats(ctx context.Context) (stats Stats, err error) {
	return stats, c.call(ctx, "Stats", Nothing{}, &stats)
}

// EndPods is Simulator.EndPods.
func (c Client) EndPods(ctx context.Context, jobID string, exitCode int32) error {
	return c.call(ctx, "EndPods", Order{Job: jobID, ExitCode: exitCode}, &Nothing{})
}

// Accounts are the simulator's.
func (c Client) Accounts(ctx context.Context) (all map[string]Account, err error) {
	return all, c.call(ctx, "Accounts", Nothing{}, &all)
}

// FailNode is Simulator.FailNode.
func (c Client) FailNode(ctx context.Context, node string) error {
	return c.call(ctx, "FailNode", node, &Nothing{})
}

// RestoreNode is Simulator.RestoreNode.
func (c Client) RestoreNode(ctx context.Context, node string) error {
	return c.call(ctx, "RestoreNode", node, &Nothing{})
}

// call has a connection of its own for each question, so that a simulator that starts
// anew is found again.
func (c Client) call(ctx context.Context, method string, argument, answer any) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return fmt.Errorf("asking the simulator: %w", err)
	}
	client := rpc.NewClient(connection)
	defer client.Close() //nolint:errcheck // the answer is there
	done := client.Go(name+"."+method, argument, answer, make(chan *rpc.Call, 1)).Done
	select {
	case <-ctx.Done():
		return ctx.Err()
	case call := <-done:
		if call.Error != nil {
			return fmt.Errorf("asking the simulator: %w", call.Error)
		}
		return nil
	}
}
