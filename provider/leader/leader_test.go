package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func config(identity string) Config {
	return Config{
		Namespace: "gangline-system", Name: "hpc", Identity: identity,
		LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 50 * time.Millisecond,
	}
}

func TestOneLeadsAndTheNextTakesOver(t *testing.T) {
	clientset := fake.NewClientset()
	var acting atomic.Int32
	leads := make(chan string, 2)
	ends := make(chan error, 2)
	stops := map[string]context.CancelFunc{}
	for _, name := range []string{"a", "b"} {
		ctx, cancel := context.WithCancel(t.Context())
		stops[name] = cancel
		go func() {
			ends <- Run(ctx, clientset, config(name), func(ctx context.Context) error {
				assert.EqualValues(t, 1, acting.Add(1), "one at a time")
				leads <- name
				<-ctx.Done()
				acting.Add(-1)
				return nil
			})
		}()
	}
	first := <-leads
	select {
	case second := <-leads:
		t.Fatalf("%s leads beside %s", second, first)
	case <-time.After(1500 * time.Millisecond): // longer than a lease is good that is not renewed
	}
	stops[first]()
	require.NoError(t, <-ends)
	second := <-leads
	assert.NotEqual(t, first, second)
	stops[second]()
	require.NoError(t, <-ends)
	lease, err := clientset.CoordinationV1().Leases("gangline-system").Get(t.Context(), "hpc", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, *lease.Spec.HolderIdentity, "it is given back")
}

func TestALeaderThatLosesItsLeaseEnds(t *testing.T) {
	clientset := fake.NewClientset()
	var silent atomic.Bool
	clientset.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return silent.Load(), &coordinationv1.Lease{}, errors.New("the API server is silent")
	})
	err := Run(t.Context(), clientset, config("a"), func(ctx context.Context) error {
		silent.Store(true)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, ErrLost)
	lease, err := clientset.CoordinationV1().Leases("gangline-system").Get(t.Context(), "hpc", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "a", *lease.Spec.HolderIdentity, "what was lost is not given back")
}

func TestWhoStandsByEndsWhenToldTo(t *testing.T) {
	clientset := fake.NewClientset()
	other, now, second := "other", metav1.NowMicro(), int32(60)
	_, err := clientset.CoordinationV1().Leases("gangline-system").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "gangline-system", Name: "hpc"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &other, RenewTime: &now, AcquireTime: &now, LeaseDurationSeconds: &second,
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.NoError(t, Run(ctx, clientset, config("a"), func(context.Context) error {
		return errors.New("must not be called")
	}))
}

func TestAnErrorOfTheLeaderIsRuns(t *testing.T) {
	failed := errors.New("no spool")
	err := Run(t.Context(), fake.NewClientset(), config("a"), func(context.Context) error { return failed })
	require.ErrorIs(t, err, failed)
	assert.NotErrorIs(t, err, ErrLost)
}
