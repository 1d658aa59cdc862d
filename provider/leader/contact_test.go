package leader

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestContact(t *testing.T) {
	unauthorized := apierrors.NewUnauthorized("Unauthorized")
	absent := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "hpc")
	type call struct {
		after time.Duration
		err   error
	}
	for sentence, tc := range map[string]struct {
		calls []call
		after time.Duration
		says  string // "" for ready
	}{
		"nothing was tried yet":                    {nil, 0, "has not been read yet"},
		"it was read":                              {[]call{{0, nil}}, 9 * time.Second, ""},
		"it is not there yet, but that was heard":  {[]call{{0, absent}}, 0, ""},
		"never, since the token was revoked":       {[]call{{0, unauthorized}}, 0, "Unauthorized; the kubeconfig's token"},
		"a failure after a success is no outage":   {[]call{{0, nil}, {time.Second, unauthorized}}, 0, ""},
		"many are":                                 {[]call{{0, nil}, {time.Second, unauthorized}, {10 * time.Second, unauthorized}}, 0, "Unauthorized"},
		"a call that hangs":                        {[]call{{0, nil}}, 30 * time.Second, "has not been reached for 30s"},
		"an end of the outage":                     {[]call{{0, unauthorized}, {time.Hour, nil}}, 0, ""},
		"a call that was ended says nothing of it": {[]call{{0, nil}, {time.Second, context.Canceled}}, 0, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
			c := NewContact(10 * time.Second)
			c.now = func() time.Time { return now }
			for _, call := range tc.calls {
				now = now.Add(call.after)
				c.heard(logr.Discard(), call.err)
			}
			now = now.Add(tc.after)
			if tc.says == "" {
				assert.NoError(t, c.Check())
				return
			}
			assert.ErrorContains(t, c.Check(), tc.says)
		})
	}
}

// An outage is told once, with its cure, and so is its end.
func TestAnOutageIsToldOnce(t *testing.T) {
	clientset := fake.NewClientset()
	calls := make(chan struct{})
	tries := 0
	clientset.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if tries++; tries > 3 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewUnauthorized("Unauthorized")
	})
	var log bytes.Buffer
	ctx := logr.NewContext(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(&log, nil)))
	c := config("a")
	c.Contact = NewContact(time.Minute)
	ended := errors.New("enough")
	err := Run(ctx, clientset, c, func(context.Context) error {
		close(calls)
		return ended
	})
	require.ErrorIs(t, err, ended)
	<-calls
	assert.NoError(t, c.Contact.Check())
	assert.Equal(t, 1, strings.Count(log.String(), "Unauthorized"), log.String())
	assert.Contains(t, log.String(), "has expired, was revoked")
	assert.Equal(t, 1, strings.Count(log.String(), "can be reached again"), log.String())
	assert.NotContains(t, log.String(), "Error retrieving", "the library says nothing of it")
}
