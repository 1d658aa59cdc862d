package apierror

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// cure is what helps with some errors.
type cure struct {
	of   func(error) bool
	says string
}

// as tells whether an error is, or wraps, one of a type.
func as[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// cures are in the order in which they are tried: what cannot be reached is an error of many
// types.
func cures() []cure {
	return []cure{
		{apierrors.IsUnauthorized, "the kubeconfig's token or client certificate has expired, was revoked, or is another cluster's: make a new one, and see that the kubeconfig's server is the right one"},
		{apierrors.IsForbidden, "give the kubeconfig's user the roles of gangline-node, and bind them in the namespaces that they are for"},
		{func(err error) bool {
			return as[x509.UnknownAuthorityError](err) || as[x509.HostnameError](err) || as[x509.CertificateInvalidError](err)
		}, "see that the kubeconfig's certificate-authority is the API server's, and that its server is a name or address that the API server's certificate has"},
		{as[*net.DNSError], "see that the kubeconfig's server is a name that this machine can look up"},
		{func(err error) bool {
			return as[*net.OpError](err) || as[*url.Error](err) || apierrors.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded)
		}, "see that the API server runs, and that this machine reaches the kubeconfig's server: its address, its port, firewalls and proxies between"},
	}
}

// Cure is what helps with an error of a call of the API server. Errors of one cause have one
// cure, whatever their texts.
func Cure(err error) string {
	for _, c := range cures() {
		if c.of(err) {
			return c.says
		}
	}
	return "look at the API server's answer"
}
