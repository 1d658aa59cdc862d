package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/lifecycle"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/usage"
	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// slot serves one slot. Its fields belong to the goroutine of run, but for those
// that never change.
type slot struct {
	cfg        Config
	index      int
	spec       spool.Slot
	slots      []spool.Slot // the whole gang's
	allocation string
	key        *spool.Key
	table      *process.Table
	meter      *usage.Meter
	namespaces process.Namespaces // of what was started for the pod
	steps      underway           // of launchers in the pod
	ranks      rankTable          // of steps, in the pod
	alone      bool               // the agent has no other slot
	listener   net.Listener
	ports      *ports     // for the gang to meet at
	locks      []*os.File // of the slot's directories, see lockSlotDir
	reporter   *reporter
	logger     *slog.Logger

	messages   chan func()
	ctx        context.Context // of everything that the slot does
	cancel     context.CancelFunc
	background sync.WaitGroup

	// peers is the table of names for the SSH service, which asks at any time.
	peers    atomic.Pointer[remoteshell.Peers]
	names    []spool.Name
	desired  spool.Desired
	leaving  bool
	ssh      *sshd.Server
	pod      *pod
	status   spool.Status
	finished map[string]bool // UIDs of pods that are not to run any more
	cleaning bool
	failure  error         // the agent's own
	changed  chan struct{} // closed and replaced when a session may start

	// interrupted is closed when the agent is told to end by the workload
	// manager, not by the node.
	interrupted chan struct{}
}

// post sends a message to the slot's goroutine.
func (s *slot) post(message func()) {
	select {
	case s.messages <- message:
	case <-s.ctx.Done():
	}
}

// run serves the slot until it has been told to leave and nothing of its pod is
// left, or the agent fails.
func (s *slot) run() error {
	s.reporter.report(s.status)
	reported := s.status
	var wake <-chan time.Time
	for {
		select {
		case message := <-s.messages:
			message()
		case <-wake:
		case <-s.ctx.Done():
			return nil // another slot's failure
		}
		wake = s.reconcile(time.Now())
		if !reflect.DeepEqual(reported, s.status) {
			s.reporter.report(s.status)
			reported = s.status
		}
		if s.failure != nil {
			return s.failure
		}
		if s.leaving && s.pod == nil && !s.cleaning {
			return nil
		}
	}
}

// leave asks the slot to end its pod and itself. It does not wait until the slot has heard
// it: others are to be told as well.
func (s *slot) leave() { go s.post(func() { s.leaving = true }) }

// interrupt tells the slot that it is to leave because the allocation ends.
func (s *slot) interrupt() {
	close(s.interrupted)
	s.leave()
}

// wasInterrupted tells whether the allocation is known to end.
func (s *slot) wasInterrupted() bool {
	select {
	case <-s.interrupted:
		return true
	default:
		return false
	}
}

func (s *slot) setDesired(d spool.Desired) { s.post(func() { s.desired = d }) }

func (s *slot) setNames(names []spool.Name) {
	s.post(func() {
		if reflect.DeepEqual(names, s.names) {
			return
		}
		s.names = names
		s.sharePeers()
		if s.pod != nil && s.pod.up() {
			if err := s.pod.setNames(names); err != nil {
				s.logger.Error("taking over new names", "error", err)
			}
		}
	})
}

// reconcile brings what runs in line with what is desired.
func (s *slot) reconcile(now time.Time) <-chan time.Time {
	if s.pod == nil && !s.cleaning {
		s.take()
	}
	p := s.pod
	if p == nil {
		return nil
	}
	if grace, stop := s.stopAsked(p.orders); stop {
		if s.wasInterrupted() && !s.stopDesired(p.orders) && !p.life.Finished() {
			p.interrupted = true
		}
		p.life.Stop(now, grace)
	}
	if !p.up() && len(s.names) > 0 && !p.life.Finished() {
		found, err := p.hostsFound(now)
		if found {
			err = p.setNames(s.names)
		}
		if err != nil {
			s.logger.Error("the pod cannot run", "pod", s.desired.Pod, "error", err)
			p.close()
			s.fail(p.orders.UID, err)
			return nil
		}
		if found {
			s.wakeSessions()
			s.watchSizes(p)
		}
	}
	s.takeUpdate(p, now)
	wake := p.search.next
	if p.up() || p.life.Finished() {
		s.ports.letGo()
		wake = p.step(now)
	}
	status := p.status()
	s.status.Pod = &status
	if p.life.Finished() {
		s.end(p)
		return nil
	}
	if again := p.update.again; wake.IsZero() || !again.IsZero() && again.Before(wake) {
		wake = again
	}
	if wake.IsZero() {
		return nil
	}
	return time.After(time.Until(wake))
}

// stopAsked tells whether the current pod is to end, and how quickly.
func (s *slot) stopAsked(o spool.PodOrders) (time.Duration, bool) {
	grace := time.Duration(o.GraceSeconds) * time.Second
	switch {
	case s.stopDesired(o):
		grace = time.Duration(s.desired.GraceSeconds) * time.Second
	case s.leaving, s.desired.PodUID != o.UID:
	default:
		return 0, false
	}
	if s.wasInterrupted() {
		// What a preStop hook or other containers have used up of it, a container
		// gets again for itself, but no more than that.
		grace = min(grace, max(s.cfg.KillWait-lifecycle.MinGrace, 0))
	}
	return grace, true
}

// stopDesired tells whether the node wants the pod to end.
func (s *slot) stopDesired(o spool.PodOrders) bool {
	return s.desired.PodUID == o.UID && s.desired.Action == spool.ActionStop
}

// take begins the desired pod, unless it is none, had its time, or cannot be
// read yet.
func (s *slot) take() {
	d := s.desired
	if !isName(d.PodUID) || s.finished[d.PodUID] {
		return
	}
	if d.Action == spool.ActionStop {
		s.fail(d.PodUID, nil)
		return
	}
	if s.leaving || d.Recipient != s.key.Recipient() {
		return // the node will seal the orders again
	}
	s.logger.Info("taking a pod", "pod", d.Pod)
	o, err := s.open(d)
	if err == nil {
		err = s.serveSSH(o.SSH)
	}
	if err == nil {
		s.pod, err = s.newPod(o)
	}
	if err != nil {
		s.logger.Error("the pod cannot run", "pod", d.Pod, "error", err)
		s.fail(d.PodUID, err)
		return
	}
	faults.At(faults.Took)
}

func (s *slot) open(d spool.Desired) (spool.PodOrders, error) {
	var o spool.PodOrders
	if err := s.key.Open(d.Orders, &o); err != nil {
		return o, &podError{wellknown.ReasonInvalidOrders, err}
	}
	switch {
	case o.UID != d.PodUID:
		return o, &podError{wellknown.ReasonInvalidOrders, fmt.Errorf("the orders are those of pod %q", o.UID)}
	case len(o.Containers) == 0:
		return o, &podError{wellknown.ReasonInvalidOrders, errors.New("the pod has no containers")}
	}
	for _, c := range slices.Concat(o.InitContainers, o.Containers) {
		if !isName(c.Name) {
			return o, &podError{wellknown.ReasonInvalidOrders, fmt.Errorf("container %q: this is no name", c.Name)}
		}
	}
	return o, nil
}

// isName tells whether a text can be a file's name.
func isName(s string) bool { return filepath.IsLocal(s) && filepath.Base(s) == s && s != "." }

// fail ends a pod of which nothing has run.
func (s *slot) fail(uid string, err error) {
	s.finished[uid] = true
	status := spool.PodStatus{UID: uid, Containers: []corev1.ContainerStatus{}}
	s.pod = nil
	if err != nil {
		status.Reason, status.Message = wellknown.ReasonSetupFailed, beginning(err.Error(), maxTermination)
		var whole *podError
		if errors.As(err, &whole) {
			status.Reason = whole.reason
		}
	}
	s.cleanUp(uid, status, false)
}

// end ends a pod whose containers have ended.
func (s *slot) end(p *pod) {
	s.finished[p.orders.UID] = true
	s.pod = nil
	p.close()
	if p.stopMeasuring != nil {
		p.stopMeasuring()
	}
	status := p.status()
	_, asked := s.stopAsked(p.orders)
	s.cleanUp(p.orders.UID, status, !asked && p.evicted == "" && killed(status))
}

// killed tells whether a container ended by a signal as it comes with an
// allocation's end.
func killed(status spool.PodStatus) bool {
	return slices.ContainsFunc(status.Containers, func(c corev1.ContainerStatus) bool {
		end := c.State.Terminated
		return end != nil && (end.ExitCode == 128+int32(unix.SIGTERM) || end.ExitCode == 128+int32(unix.SIGKILL))
	})
}

// foreboding is how long a pod that was killed by nobody known is kept from
// being done. A workload manager signals all processes of a job at once, and the
// pod's may die before the agent has heard of its own signal.
const foreboding = time.Second

// cleanUp removes a pod's processes and files and then reports it as done. It
// may take long where there is much to remove.
//
// A pod that died of an unexplained signal is reported a little later, so that
// it can be told whether the allocation's end was the cause.
func (s *slot) cleanUp(uid string, status spool.PodStatus, unexplained bool) {
	s.status.Pod = &status
	s.cleaning = true
	s.wakeSessions()
	s.background.Go(func() {
		if err := s.sweepPod(uid); err != nil {
			s.logger.Error("ending what a pod left", "error", err)
		}
		s.ranks.forget()
		if err := s.dirs(uid).remove(); err != nil {
			s.logger.Error("removing a pod's files", "error", err)
		}
		if unexplained {
			select {
			case <-s.interrupted:
			case <-time.After(foreboding):
			}
		}
		faults.At(faults.PodEnded)
		s.post(func() {
			s.cleaning = false
			done := status // the other is being written, perhaps
			done.Done = true
			done.Interrupted = done.Interrupted || unexplained && s.wasInterrupted()
			s.status.Pod = &done
		})
	})
}

func (s *slot) dirs(uid string) podDirs {
	return podDirs{memory: filepath.Join(s.memoryDir(), uid), disk: filepath.Join(s.diskDir(), uid)}
}

func (s *slot) memoryDir() string { return filepath.Join(s.cfg.Runtime, s.dirName()) }
func (s *slot) diskDir() string   { return filepath.Join(s.cfg.Scratch, s.dirName()) }
func (s *slot) dirName() string   { return s.allocation + "-" + strconv.Itoa(s.index) }
