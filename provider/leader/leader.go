package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Config is a lease that processes compete for.
type Config struct {
	Namespace, Name string
	// Identity tells this process from the others.
	Identity string
	// LeaseDuration is how long a lease is good that is not renewed, RenewDeadline how
	// long its holder tries to renew it before it gives up, RetryPeriod the pause between
	// two tries: each is shorter than the one before.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Contact is told how the calls for the lease end; nil for nobody.
	Contact *Contact
}

// ErrLost is why a leader's context ended: it could not renew its lease in time.
var ErrLost = errors.New("the lease could not be renewed, and another process may have it by now")

// Run waits for the lease, calls lead, and gives the lease back when lead has returned. The
// context of lead ends with ctx or, with the cause ErrLost, when the lease is lost; that is an
// error even if lead returns none.
func Run(ctx context.Context, clientset kubernetes.Interface, c Config, lead func(context.Context) error) error {
	log := logr.FromContextOrDiscard(ctx).WithValues("lease", c.Namespace+"/"+c.Name, "identity", c.Identity)
	if c.Contact == nil {
		c.Contact = NewContact(c.RenewDeadline)
	}
	started := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: heardLock{contact: c.Contact, log: log, Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
			Client:     clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
		}},
		Name:          c.Name,
		LeaseDuration: c.LeaseDuration, RenewDeadline: c.RenewDeadline, RetryPeriod: c.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { started <- held },
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != c.Identity {
					log.Info("standing by", "leader", holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election of a leader: %w", err)
	}
	// The lease is renewed until lead has returned: who gives it back while he still acts is
	// not alone.
	election, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	// The library logs each failed try, and no cure: the Contact says what there is to say.
	election = logr.NewContext(election, logr.Discard())
	left := make(chan struct{})
	go func() {
		defer close(left)
		elector.Run(election)
	}()
	select {
	case <-ctx.Done():
		leave()
		<-left
		if elector.IsLeader() { // since a moment ago
			return release(election, clientset, c)
		}
		return nil
	case held := <-started:
		log.Info("leading")
		err := actWhile(ctx, held, lead)
		lost := held.Err() != nil
		leave()
		<-left
		if lost {
			return errors.Join(ErrLost, err)
		}
		return errors.Join(err, release(election, clientset, c))
	}
}

// actWhile calls lead with a context that ends when held does.
func actWhile(ctx, held context.Context, lead func(context.Context) error) error {
	acting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(held, func() { stop(ErrLost) })()
	return lead(acting)
}

// release gives the lease back, for the next to take at once.
func release(ctx context.Context, clientset kubernetes.Interface, c Config) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.RenewDeadline)
	defer cancel()
	leases := clientset.CoordinationV1().Leases(c.Namespace)
	lease, err := leases.Get(ctx, c.Name, metav1.GetOptions{})
	if err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == c.Identity {
		now, second := metav1.NowMicro(), int32(1)
		lease.Spec.HolderIdentity = new(string)
		lease.Spec.LeaseDurationSeconds = &second
		lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) { // a conflict: somebody has taken it
		return fmt.Errorf("giving the lease %s/%s back: %w", c.Namespace, c.Name, err)
	}
	return nil
}
