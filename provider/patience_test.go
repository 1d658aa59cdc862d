package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTransient(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":              {fmt.Errorf("keeping the node: %w", &url.Error{Op: "Get", Err: syscall.ECONNREFUSED}), true},
		"it died during the answer":   {fmt.Errorf("keeping the node: %w", &url.Error{Op: "Patch", Err: io.ErrUnexpectedEOF}), true},
		"the connection was reset":    {&url.Error{Op: "Patch", Err: syscall.ECONNRESET}, true},
		"it is overloaded":            {apierrors.NewTooManyRequests("later", 1), true},
		"etcd is away":                {fmt.Errorf("reading the node: %w", apierrors.NewInternalError(errors.New("etcd"))), true},
		"it may not":                  {apierrors.NewForbidden(nodes, "n", nil), false},
		"it is not there":             {apierrors.NewNotFound(nodes, "n"), false},
		"what it sent makes no sense": {apierrors.NewBadRequest("no"), false},
		"something else is wrong":     {errors.New("no"), false},
	} {
		assert.Equal(t, test.want, transient(test.err), name)
	}
}

func TestPatiently(t *testing.T) {
	passing, lasting := errors.New("passing"), errors.New("lasting")
	passes := func(err error) bool { return errors.Is(err, passing) }
	for name, test := range map[string]struct {
		answers []error
		most    time.Duration
		calls   int
		want    error
	}{
		"an answer at once":            {[]error{nil}, time.Minute, 1, nil},
		"it passes":                    {[]error{passing, passing, nil}, time.Minute, 3, nil},
		"it lasts":                     {[]error{passing, lasting}, time.Minute, 2, lasting},
		"it does not pass soon enough": {[]error{passing}, -1, 1, passing},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := patiently(t.Context(), test.most, time.Millisecond, passes, func(context.Context) error {
				calls++
				return test.answers[calls-1]
			})
			assert.ErrorIs(t, err, test.want)
			assert.Equal(t, test.calls, calls)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := patiently(ctx, time.Minute, time.Minute, passes, func(context.Context) error { return passing })
	assert.ErrorIs(t, err, context.Canceled)
}
