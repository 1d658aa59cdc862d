package provider

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// order tells the agents what is wanted: the table of names once all have
// reported, the pods that are to run, and those that are to stop.
func (r *Reconciler) order(ctx context.Context, s *state) error {
	r.dropDuplicates(ctx, s)
	a := s.alloc
	errs := []error{r.stopForgotten(ctx, s)}
	for _, p := range s.pods {
		if p.running() && p.stop {
			errs = append(errs, r.orderStop(ctx, s, p))
		}
	}
	if a.gang.Release || a.job == nil || agentsMissing(s.reports) > 0 {
		return errors.Join(errs...)
	}
	if err := r.orderNames(ctx, s); err != nil {
		return errors.Join(append(errs, err)...)
	}
	in := newInputs(r, s.hpc.site)
	for _, p := range s.pods {
		if p.slot < 0 || !p.live() || p.stop || !p.accepted() || !p.placedIn(a) {
			continue
		}
		errs = append(errs, r.orderRun(ctx, s, p, in), r.orderUpdate(ctx, s, p, in))
	}
	return errors.Join(errs...)
}

// placedIn tells whether the API server knows that the pod's place is in the allocation.
// Should the spool be lost, nothing else tells what may run it. Where it does not know yet,
// the report that follows tells it, and that write has the gang looked at again.
func (p *podState) placedIn(a *allocation) bool {
	return p.pod.Annotations[wellknown.AnnotationAllocation] == a.name()
}

// stopForgotten stops the processes of pods that the API server does not have
// any more: somebody took their finalizer away.
func (r *Reconciler) stopForgotten(ctx context.Context, s *state) error {
	a := s.alloc
	var errs []error
	for k, d := range a.desired {
		known := slices.ContainsFunc(s.pods, func(p *podState) bool { return string(p.uid()) == d.PodUID })
		done := s.reports[k].Pod != nil && s.reports[k].Pod.UID == d.PodUID && s.reports[k].Pod.Done
		if d.Action != spool.ActionRun || known || done {
			continue
		}
		logr.FromContextOrDiscard(ctx).Info("a pod is gone from the API server while it may run; stopping it", "pod", d.Pod, "slot", k)
		d.Action, d.GraceSeconds = spool.ActionStop, corev1.DefaultTerminationGracePeriodSeconds
		errs = append(errs, r.writeDesired(ctx, a, k, d))
	}
	return errors.Join(errs...)
}

// orderNames gives every agent the same table: which name is where.
func (r *Reconciler) orderNames(ctx context.Context, s *state) error {
	a := s.alloc
	names := make([]spool.Name, len(a.gang.Slots))
	for k, slot := range a.gang.Slots {
		agent := s.reports[k].Agent
		names[k] = spool.Name{Slot: k, Hosts: slot.Hosts, Address: agent.Address, SSHPort: agent.SSHPort, Node: agent.Node}
	}
	for _, p := range s.pods {
		if p.slot >= 0 && p.live() && !slices.Contains(names[p.slot].Hosts, translate.ShortHostname(p.pod)) {
			// Not the pod the place was made for: a later one of the same Job.
			names[p.slot].Hosts = translate.PodHosts(p.pod, r.config.ClusterDomain)
		}
	}
	if reflect.DeepEqual(names, a.gang.Names) {
		return nil
	}
	before := a.gang.Names
	a.gang.Names = names
	if err := a.writeGang(ctx); err != nil {
		a.gang.Names = before
		return err
	}
	faults.At(faults.Named)
	if len(before) == 0 {
		s.note.start.reported = time.Now()
	}
	return nil
}

// orderRun gives a slot its pod, or the same pod again where the slot's agent
// has a new key and cannot have read it.
func (r *Reconciler) orderRun(ctx context.Context, s *state, p *podState, in *inputs) error {
	a := s.alloc
	have := a.desired[p.slot]
	agent := s.reports[p.slot].Agent
	if have.PodUID == string(p.uid()) && (have.Recipient == agent.Recipient || p.observed != nil) {
		return nil
	}
	if previous := s.reports[p.slot].Pod; have.PodUID != "" && have.PodUID != string(p.uid()) &&
		(previous == nil || previous.UID != have.PodUID || !previous.Done) {
		p.waiting = translate.Waiting{Reason: wellknown.ReasonWaitingForSlot, Message: "the pod that had this place before is still stopping"}
		return nil
	}
	orders, err := r.orders(ctx, s, p, in)
	var missing *translate.MissingError
	if errors.As(err, &missing) {
		r.waitForMissing(s, p, missing)
		return nil
	}
	if err != nil {
		r.waitFor(s, p, translate.Waiting{Reason: wellknown.ReasonConfigError, Message: err.Error()}, "Failed", "Error: "+err.Error())
		return nil
	}
	sealed, err := spool.Seal(agent.Recipient, orders)
	if err != nil {
		return err
	}
	d := spool.Desired{
		Version: spool.Version, PodUID: string(p.uid()), Pod: p.pod.Namespace + "/" + p.pod.Name,
		Action: spool.ActionRun, Recipient: agent.Recipient, Orders: sealed,
	}
	if err := r.writeDesired(ctx, a, p.slot, d); err != nil {
		return err
	}
	faults.At(faults.Ordered)
	setTime(&s.note.start.ordered, p.uid(), time.Now())
	p.started = true
	if err := r.ordered(s, p, orders); err != nil {
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("ordered to run", "pod", d.Pod, "slot", p.slot, "node", agent.Node)
	return nil
}

// waitForMissing shows what a pod lacks, in kubelet's words, and tries again.
func (r *Reconciler) waitForMissing(s *state, p *podState, missing *translate.MissingError) {
	waiting := translate.Waiting{Reason: wellknown.ReasonConfigError, Message: missing.Error()}
	if missing.Volume != "" {
		waiting.Reason = wellknown.ReasonContainerCreating
	}
	reason, text := missing.Event()
	r.waitFor(s, p, waiting, reason, text)
}

// waitFor shows why a pod cannot start yet, tells it in an Event if it is new,
// and tries again soon.
func (r *Reconciler) waitFor(s *state, p *podState, w translate.Waiting, reason, text string) {
	p.waiting = w
	if p.pod.Status.Message != w.Message {
		r.event(p.pod, corev1.EventTypeWarning, reason, "%s", text)
	}
	s.within(missingAgain)
}

// missingAgain is how soon a pod looks again for a ConfigMap or Secret that is
// not there.
const missingAgain = 5 * time.Second

func (r *Reconciler) orders(ctx context.Context, s *state, p *podState, in *inputs) (spool.PodOrders, error) {
	a := s.alloc
	refs := translate.References(p.pod)
	refs.Secrets = append(refs.Secrets, translate.PullSecrets(p.pod, s.hpc.forPod(p.wishes))...)
	values, err := in.of(ctx, p.pod, refs)
	if err != nil {
		return spool.PodOrders{}, err
	}
	r.tellAbsent(s, p, values)
	meeting, err := r.complete(s, p, &values)
	if err != nil {
		return spool.PodOrders{}, err
	}
	orders, err := translate.Orders(p.pod, values)
	if err != nil {
		return orders, err
	}
	orders.Logs = r.config.logLimits()
	return orders, a.keepMeeting(ctx, meeting)
}

// complete adds to a pod's inputs what its agent and its gang give it.
func (r *Reconciler) complete(s *state, p *podState, values *translate.Inputs) (*translate.Meeting, error) {
	a := s.alloc
	var err error
	if values.SSH, err = r.keys.ssh(a.name()); err != nil {
		return nil, err
	}
	r.locate(s, p, values)
	values.ClusterDomain = r.config.ClusterDomain
	values.APIServer = r.config.APIServer
	values.Site.Partition = s.hpc.partitionFor(s.wishes.Partition)
	values.Site.Runtime = s.hpc.forPod(p.wishes).Runtime
	values.Rank, values.Size = p.slot, len(a.gang.Slots)
	values.MPI = spool.MPI{Launch: p.wishes.MPILaunch, PMI: p.wishes.MPIPMI}
	values.Hosts = hostfile(a.gang)
	meeting := meetingOf(a.gang, s.reports, p.slot, p.pod)
	if meeting != nil {
		values.Port = meeting.Port
	}
	return meeting, nil
}

// locate adds to a pod's inputs what its HPC node is: all that volumes are made of
// besides what the API server has.
func (r *Reconciler) locate(s *state, p *podState, values *translate.Inputs) {
	agent := s.reports[p.slot].Agent
	values.PodIP, values.HostIP = agent.Address, agent.Address
	values.NodeAllocatable = r.hpc().node(agent.Node)
}

// hostfile is the gang's hosts in rank order.
func hostfile(g spool.Gang) []mpi.Host {
	var hosts []mpi.Host
	for k, slot := range g.Slots {
		if slot.MPISlots > 0 {
			hosts = append(hosts, mpi.Host{Name: mpiName(g.Names[k].Hosts), Slots: slot.MPISlots})
		}
	}
	return hosts
}

// mpiName is the name that the hostfile uses: with the subdomain, as Kubeflow
// writes it, where the pod has one.
func mpiName(hosts []string) string {
	if len(hosts) > 1 {
		return hosts[1]
	}
	return hosts[0]
}

// orderStop asks the agent to end a pod. A later, shorter grace replaces a
// longer one.
func (r *Reconciler) orderStop(ctx context.Context, s *state, p *podState) error {
	a := s.alloc
	have := a.desired[p.slot]
	if have.Action == spool.ActionStop && have.GraceSeconds <= p.grace {
		return nil
	}
	first := have.Action != spool.ActionStop
	have.Version, have.Action, have.GraceSeconds, have.Orders = spool.Version, spool.ActionStop, p.grace, nil
	if err := r.writeDesired(ctx, a, p.slot, have); err != nil {
		if _, told := a.stopping[p.slot]; spool.IsFull(err) && !told {
			// The pod's own log may have filled it, and then there is no room before the pod
			// has gone: its time counts from now on as if its agent knew.
			a.stopping[p.slot] = s.now
			r.event(p.pod, corev1.EventTypeWarning, "FailedKillPod", "Its agent cannot be told to stop it: %v; if that lasts, the job is cancelled", spool.Cause(err))
		}
		return err
	}
	if first {
		delete(a.stopping, p.slot) // whatever was tried before, the agent counts from now on
	}
	faults.At(faults.StopOrdered)
	r.tellStop(p)
	logr.FromContextOrDiscard(ctx).Info("ordered to stop", "pod", have.Pod, "slot", p.slot, "grace", p.grace)
	return nil
}

// writeDesired gives an agent its orders. Where nobody can tell whether it has got them,
// it counts as having them, and gets them again.
func (r *Reconciler) writeDesired(ctx context.Context, a *allocation, slot int, d spool.Desired) error {
	err := a.write(ctx, a.dir.Desired(slot), d)
	d.Orders, d.Update = nil, nil
	if errors.Is(err, site.ErrUnreachable) && d.Action == spool.ActionRun && a.desired[slot].PodUID != d.PodUID {
		d.Recipient = ""
	} else if err != nil {
		return err
	}
	if a.desired[slot].PodUID != d.PodUID {
		delete(a.stopping, slot) // it is the pod's that was there before
	}
	a.desired[slot] = d
	r.registry.bind(a, podUID(d), slot)
	return err
}
