package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gangline/gangline/provider/apierror"
	"github.com/gangline/gangline/provider/faults"
	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/observe/tracing"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// Request is one piece of work: a gang, or a pod whose gang is not known yet.
type Request struct {
	Gang string
	Pod  types.NamespacedName
}

// Reconciler drives the gangs of one virtual node.
type Reconciler struct {
	config    Config
	client    client.Client // reads from caches
	live      client.Reader // reads from the API server
	clientset kubernetes.Interface
	manager   wlm.Manager
	kind      string // the workload manager for people: "Slurm"
	recorder  record.EventRecorder

	registry *registry
	family   *family
	owners   *owners
	jobs     *jobTable
	statuses *statusTable
	writes   *writes
	keys     keySource
	objects  *objects
	tokens   *tokens
	updates  *updates
	hpc      func() hpcView
	// identities say whose gangs are whose; people are those users.
	identities *identities
	people     *people
	node       func() *corev1.Node

	metrics *metrics.Node
	tracer  *tracing.Tracer
	began   time.Time // this process

	wake    wakeups
	notes   notes
	turns   turns
	pursuit pursuit
	// cancelling are the HPC users whose late jobs are being cancelled.
	cancelling sync.Map

	recovering sync.Mutex
	recovered  bool
}

var _ reconcile.TypedReconciler[Request] = (*Reconciler)(nil)

// longestLook bounds one look at a gang: more than a submission takes, with the agent's
// way to a login node.
const longestLook = 5 * time.Minute

// Reconcile brings one gang nearer to what is wanted of it.
func (r *Reconciler) Reconcile(ctx context.Context, req Request) (reconcile.Result, error) {
	if err := r.recover(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if req.Gang == "" {
		return reconcile.Result{}, r.assign(ctx, req.Pod)
	}
	// A user's filesystem that hangs must not hold a worker for ever.
	ctx, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	log := logr.FromContextOrDiscard(ctx).WithValues("gang", req.Gang)
	ctx = logr.NewContext(ctx, log)
	s, err := r.gather(ctx, req.Gang)
	if s != nil && s.turn != "" {
		defer r.endTurn(s.turn)
	}
	if errors.Is(err, errNotItsTurn) {
		return reconcile.Result{RequeueAfter: turnAgain}, nil // mostly another one's end has it looked at
	}
	if unmet := (*unmetError)(nil); errors.As(err, &unmet) {
		r.waitForSite(s, unmet)
		return reconcile.Result{RequeueAfter: readAgainLongest}, nil // it is looked at as soon as there is news
	}
	if errors.Is(err, site.ErrUnreachable) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r.gatherClaims(ctx, s)
	s.lose(r.config.JobInterval.Duration)
	s.decideWith(r.kind, s.hpc, r.config.AllocationGrace.Duration)
	r.gatherDependencies(s)
	s.note.keep(s.pods)
	s.note.start.look(s)
	if d, known := s.note.start.queueTime(s); known {
		r.metrics.Queued(d)
	}
	r.tellLimit(s)
	r.lookForMissing(ctx, s)
	err = r.act(ctx, s)
	if spool.IsFull(err) {
		// There may be no room before this gang has gone: its times count all the same.
		log.Error(err, "there is no room in the spool; trying again")
		s.note.full.tried(s.now)
		s.within(backOff(s.note.full.tries, longestRetry))
		return reconcile.Result{RequeueAfter: max(s.recheck, time.Second)}, nil
	}
	s.note.full = retries{}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gang %s: %w", req.Gang, err)
	}
	r.metrics.Gang(s.key, s.stage(), len(s.slots))
	return reconcile.Result{RequeueAfter: s.recheck}, nil
}

// recover finds the gangs of all pods that were there when this process
// started. Before that no gang may be looked at: one whose pods are not known
// yet would look abandoned. Pods that the node has not accepted are in none; their author
// can write the finalizer, but not the seal.
func (r *Reconciler) recover(ctx context.Context) error {
	r.recovering.Lock()
	defer r.recovering.Unlock()
	if r.recovered {
		return nil
	}
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods); err != nil {
		return fmt.Errorf("listing the node's pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		m, err := r.owners.resolve(ctx, pod)
		switch {
		case err == nil:
			r.look(m.key)
		case controllerutil.ContainsFinalizer(pod, wellknown.Finalizer) && r.sealed(pod):
			return err
		default: // it has a place in no allocation, and keeps nobody waiting
			r.wake.add(Request{Pod: client.ObjectKeyFromObject(pod)})
		}
	}
	r.recovered = true
	return nil
}

// assign finds a new pod's gang and has that looked at.
func (r *Reconciler) assign(ctx context.Context, name types.NamespacedName) error {
	pod := &corev1.Pod{}
	if err := r.client.Get(ctx, name, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	m, err := r.owners.resolve(ctx, pod)
	if err != nil {
		if !transient(err) {
			r.event(pod, corev1.EventTypeWarning, wellknown.ReasonOwnerUnreadable, "%v; it is tried again; %s", err, apierror.Cure(err))
		}
		return err
	}
	r.look(m.key)
	return nil
}

// decideWith applies the policies in order. Each changes only the state in
// memory.
func (s *state) decideWith(manager string, site hpcView, grace time.Duration) {
	s.manager = manager
	s.admit(site)
	s.announceLimit(site.limitWarning)
	s.bind()
	s.stops()
	s.stopForLimit()
	s.form()
	s.end(manager)
	s.releasing = s.release(grace) || s.spent()
	s.unstarted(s.releasing)
}

// act carries out what was decided: accept, submit, order, release, report.
func (r *Reconciler) act(ctx context.Context, s *state) error {
	errs := []error{r.refuse(ctx, s)}
	accepted := r.accept(ctx, s)
	r.waitForClaims(s)
	errs = append(errs, accepted)
	r.endSurplus(ctx, s)
	if accepted == nil && s.mustSubmit() && len(s.surplus) == 0 {
		// Only pods that have their finalizer may run.
		if err := r.submit(ctx, s); err != nil {
			r.tellTrouble(ctx, s, err)
		}
	}
	if a := s.alloc; a != nil && a.live() && s.ending == nil {
		errs = append(errs, r.order(ctx, s))
		if s.releasing || s.abandon {
			errs = append(errs, r.giveBack(ctx, s))
		}
	}
	r.pursueLost(ctx, s)
	errs = append(errs, r.report(ctx, s))
	r.trace(s)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.finish(ctx, s)
}

// finish writes the allocation's end down, once the pods have got their last
// status, and clears away what nobody needs any more.
func (r *Reconciler) finish(ctx context.Context, s *state) error {
	if s.ending != nil {
		faults.At(faults.LastStatus)
		if err := r.markEnded(ctx, s, *s.ending); err != nil {
			return err
		}
		r.metrics.Ended(s.ending.Outcome)
		r.eventOne(s, corev1.EventTypeNormal, wellknown.ReasonAllocationOver, "The allocation has ended (%s): %s", s.ending.Outcome, s.ending.Message)
		s.note.start.over()
		s.within(time.Second) // a restarted owner's pods may be waiting
	}
	if len(s.pods) == 0 {
		r.notes.forget(s.key)
	}
	members := map[types.UID]bool{}
	for _, p := range s.pods {
		members[p.uid()] = true
	}
	return r.registry.collect(ctx, s.key, s.owner.gone, func(uid types.UID) bool { return members[uid] })
}

// options are the node's part in reading an owner.
func (r *Reconciler) options() translate.Options {
	return translate.Options{
		Selects:       selects(r.node()),
		GPUResource:   corev1.ResourceName(r.config.GPUResource),
		Devices:       r.config.Resources,
		ClusterDomain: r.config.ClusterDomain,
	}
}

// ignoreGone drops the errors that mean that the pod is not there any more, or
// is another by now (a UID that does not match is a conflict).
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || (apierrors.IsConflict(err) && strings.Contains(err.Error(), "UID")) {
		return nil
	}
	return err
}
