package apierror

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestCure(t *testing.T) {
	call := func(err error) error { return &url.Error{Op: "Get", URL: "https://k8s:6443/version", Err: err} }
	for sentence, tc := range map[string]struct {
		err  error
		says string
	}{
		"a token that was revoked":      {apierrors.NewUnauthorized("Unauthorized"), "token or client certificate has expired"},
		"a role that is missing":        {apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "x", nil), "roles of gangline-node"},
		"another authority":             {call(x509.UnknownAuthorityError{}), "certificate-authority"},
		"a name that nobody knows":      {call(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "k8s"}}), "can look up"},
		"nobody at the port":            {call(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), "the API server runs"},
		"no answer in time":             {context.DeadlineExceeded, "the API server runs"},
		"something else":                {errors.New("teapot"), "the API server's answer"},
		"what others have said more of": {fmt.Errorf("reading: %w", apierrors.NewUnauthorized("x")), "has expired"},
	} {
		t.Run(sentence, func(t *testing.T) { assert.Contains(t, Cure(tc.err), tc.says) })
	}
}
