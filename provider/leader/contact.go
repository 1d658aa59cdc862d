package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/gangline/gangline/provider/apierror"
)

// Contact knows whether the lease could be reached lately, and why not. Whoever cannot reach
// it cannot take over either.
type Contact struct {
	within time.Duration
	now    func() time.Time

	mu   sync.Mutex
	last time.Time // when it was reached; zero for never
	err  error     // why it was not the last time
	told string    // the cure that was last logged
}

// NewContact makes a Contact that is lost when the lease has not been reached for a while.
func NewContact(within time.Duration) *Contact { return &Contact{within: within, now: time.Now} }

// Check tells why the lease was not reached lately, and what helps; nil if it was.
func (c *Contact) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	since := c.now().Sub(c.last)
	switch {
	case !c.last.IsZero() && since <= c.within:
		return nil
	case c.err != nil:
		return fmt.Errorf("the lease cannot be reached: %w; %s", c.err, apierror.Cure(c.err))
	case c.last.IsZero():
		return errors.New("the lease has not been read yet")
	}
	return fmt.Errorf("the lease has not been reached for %s, and the API server does not say why; %s", since.Round(time.Second), apierror.Cure(context.DeadlineExceeded))
}

// heard takes in how a call ended. It logs the first of calls that fail for one cause, and
// the first that does not.
func (c *Contact) heard(log logr.Logger, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		if c.told != "" {
			log.Info("the lease can be reached again")
		}
		c.last, c.err, c.told = c.now(), nil, ""
		return
	}
	if errors.Is(err, context.Canceled) {
		return // somebody has ended the call
	}
	c.err = err
	if cure := apierror.Cure(err); cure != c.told {
		c.told = cure
		log.Error(err, "the lease cannot be reached; it is tried again until it can", "cure", cure)
	}
}

// heardLock tells a Contact how the calls of a lock end.
type heardLock struct {
	resourcelock.Interface
	contact *Contact
	log     logr.Logger
}

// Get implements resourcelock.Interface.
func (l heardLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.contact.heard(l.log, err)
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l heardLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.contact.heard(l.log, err)
	return err
}

// Update implements resourcelock.Interface.
func (l heardLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	l.contact.heard(l.log, err)
	return err
}
