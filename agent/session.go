package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/session"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

var _ sshd.Runner = (*slot)(nil)

// serveSSH starts the slot's SSH service with the first orders that hold its
// keys. All pods of an allocation have the same.
func (s *slot) serveSSH(keys spool.SSH) error {
	if s.ssh != nil {
		return nil
	}
	s.sharePeers()
	server, err := sshd.New(sshd.Config{
		HostKey: keys.HostKey, AuthorizedKeys: keys.ClientPublicKey, Logger: s.logger,
		Subsystems: []string{session.SFTP, statusSubsystem, signalSubsystem, endedSubsystem},
		Peers:      func(host string) []string { return s.peers.Load().Addresses(host) },
	}, s)
	if err != nil {
		return &podError{wellknown.ReasonInvalidOrders, err}
	}
	s.ssh = server
	s.background.Go(func() {
		if err := server.Serve(s.ctx, s.listener); err != nil {
			s.post(func() { s.failure = err })
		}
	})
	return nil
}

// sharePeers gives the SSH service the table of names.
func (s *slot) sharePeers() {
	table := peers(s.names, nil)
	s.peers.Store(&table)
}

// Run runs a command for an SSH session in the surroundings of one of the pod's
// containers, whether that runs or not: a worker's SSH service must not depend
// on the worker's own command. It waits for a pod that is still to come, and for
// the start of its containers where it is not told which one to enter: patience of
// it, or what the client says in remoteshell.PatienceVariable.
func (s *slot) Run(ctx context.Context, c sshd.Command) (int, error) {
	switch c.Subsystem {
	case statusSubsystem:
		return s.serveStatus(ctx, c.Stdout)
	case signalSubsystem:
		return s.serveSignal(c.Stdin)
	case endedSubsystem:
		return s.serveEnded(c.Stdin, c.Stdout)
	}
	if c.Attach != nil {
		return s.attach(ctx, c)
	}
	recipe, pod, err := s.sessionRecipe(ctx, c)
	if err != nil {
		return 0, err
	}
	ctx, leave := pod.join(ctx)
	defer leave()
	s.logger.Debug("a session begins", "container", c.Container)
	status, err := session.Run(ctx, s.starter(), recipe, c)
	if err := s.namespaces.ReleaseUnused(); err != nil {
		s.logger.Warn("ending a session", "error", err)
	}
	return status, err
}

// sessionRecipe asks the slot's goroutine for the surroundings of a session, and the pod
// that they are in.
func (s *slot) sessionRecipe(ctx context.Context, c sshd.Command) (sandbox.Recipe, *pod, error) {
	patience := remoteshell.Patience(c.Env, podPatience)
	outOfPatience := time.NewTimer(patience)
	defer outOfPatience.Stop()
	type answer struct {
		recipe sandbox.Recipe
		pod    *pod
		err    error
		wait   <-chan struct{} // ask again then
	}
	for {
		answers := make(chan answer, 1)
		s.post(func() {
			recipe, err := s.surroundSession(c)
			answers <- answer{recipe, s.pod, err, s.changed}
		})
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return sandbox.Recipe{}, nil, ctx.Err()
		case <-s.ctx.Done():
			return sandbox.Recipe{}, nil, errors.New("the slot is being given back")
		}
		if !errors.Is(a.err, errNotYet) {
			return a.recipe, a.pod, a.err
		}
		select {
		case <-a.wait:
		case <-ctx.Done():
		case <-outOfPatience.C:
			return sandbox.Recipe{}, nil, fmt.Errorf("the pod has not started within %s (see kubectl describe pod); set %s, for instance to 10m, to wait longer",
				patience, remoteshell.PatienceVariable)
		}
	}
}

// errNotYet says that the slot's pod, or a container of it, is still to come.
var errNotYet = errors.New("the pod is not running yet")

// podUp returns the slot's pod if commands can start in it.
func (s *slot) podUp() (*pod, error) {
	switch {
	case s.pod == nil && s.finished[s.desired.PodUID]:
		return nil, errPodEnded
	case s.pod == nil, !s.pod.up():
		return nil, errNotYet
	}
	return s.pod, nil
}

// podBegun returns it if its containers have been started.
func (s *slot) podBegun() (*pod, error) {
	p, err := s.podUp()
	if err == nil && !p.life.Begun() {
		err = errNotYet
	}
	return p, err
}

func (s *slot) surroundSession(c sshd.Command) (sandbox.Recipe, error) {
	name, ready := c.Container, s.podUp
	if name == "" {
		ready = s.podBegun
	}
	if _, err := ready(); err != nil {
		return sandbox.Recipe{}, err
	}
	if name == "" {
		name = s.pod.orders.Containers[0].Name
	}
	container, ok := s.pod.container(name)
	if !ok {
		return sandbox.Recipe{}, fmt.Errorf("the pod has no container %q", name)
	}
	if err := s.pod.mayVisit(name); err != nil {
		return sandbox.Recipe{}, err
	}
	r, err := s.pod.recipe(container, s.pod.runs[name])
	if err != nil {
		return r, err
	}
	where := s.cfg.Home
	if s.pod.box != nil {
		where = home(r.Env)
	}
	session.Complete(&r, c, where)
	return r, nil
}

// wakeSessions makes those ask again that wait for a pod.
func (s *slot) wakeSessions() {
	close(s.changed)
	s.changed = make(chan struct{})
}
