package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sys/unix"
)

// Error says why a registry did not give an image.
type Error struct {
	// Unavailable is set if the registry is the one to blame, and it may pass.
	Unavailable bool
	// NotFound is set if there is no such image, for all that the caller can see.
	NotFound bool
	message  string
	cause    error
}

func (e *Error) Error() string { return e.message }

func (e *Error) Unwrap() error { return e.cause }

// cause is one row of what can go wrong: how it is recognized, and what is said.
type cause struct {
	is          func(error) bool
	unavailable bool
	notFound    bool
	// say has the registry's host for %[1]s and the image for %[2]s.
	say string
}

var causes = []cause{
	{is: status(http.StatusUnauthorized, http.StatusForbidden),
		say: "unauthorized: %[1]s does not give %[2]s to this pod: it is private, or does not exist: check the name, and that imagePullSecrets (or the site's credentialsFile) have a credential for %[1]s that may read it"},
	{is: status(http.StatusNotFound), notFound: true,
		say: "not found: %[1]s has no image %[2]s: check name and tag"},
	{is: status(http.StatusTooManyRequests), unavailable: true,
		say: "%[1]s refuses more requests for now: log in by imagePullSecrets, or have the site name a mirror (registries.mirrors)"},
	{is: serverError, unavailable: true,
		say: "%[1]s is there but fails: it is tried again"},
	{is: noSuchHost,
		say: "no such host: %[1]s cannot be found by its name from this node: check the name; a site without a way out names a mirror (registries.mirrors), a proxy (HTTPS_PROXY) or the image's path (offline)"},
	{is: func(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }, unavailable: true,
		say: "connection refused: nothing listens at %[1]s"},
	{is: wrongCertificate,
		say: "the certificate of %[1]s is not trusted (x509): the site names its authority (registries.caFile) or, if it must, the host as registries.insecure"},
	{is: plainHTTP,
		say: "%[1]s speaks HTTP and no TLS: if that is meant, the site names it in registries.insecure"},
	{is: timeout,
		say: "timeout: no answer from %[1]s: compute nodes may have no way out: the site names a mirror (registries.mirrors), a proxy (HTTPS_PROXY) or the image's path (offline)"},
	{is: func(err error) bool { return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) },
		say: "there is no way to %[1]s from this node: the site names a mirror (registries.mirrors), a proxy (HTTPS_PROXY) or the image's path (offline)"},
}

// explain finds the row of an error; what has none is told as it is.
func explain(err error, place name.Reference) error {
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	host, image := place.Context().RegistryStr(), place.String()
	for _, c := range causes {
		if c.is(err) {
			text := fmt.Sprintf("%s (%s)", fmt.Sprintf(c.say, host, image), brief(err))
			return &Error{Unavailable: c.unavailable, NotFound: c.notFound, message: text, cause: err}
		}
	}
	return &Error{message: fmt.Sprintf("%s: %s", host, brief(err)), cause: err}
}

// brief is an error in one line of bounded length.
func brief(err error) string {
	const longest = 300
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ToValidUTF8(text, "") // a registry's words, perhaps cut within a character
}

// worst is what is told of several places' failures: the last place is the registry
// itself, and a mirror that just does not have the image is of no interest.
func worst(failures []error) error {
	last := failures[len(failures)-1]
	var more []string
	for _, f := range failures[:len(failures)-1] {
		var e *Error
		if errors.As(f, &e) && !e.NotFound {
			more = append(more, f.Error())
		}
	}
	var e *Error
	if len(more) == 0 || !errors.As(last, &e) {
		return last
	}
	return &Error{Unavailable: e.Unavailable, NotFound: e.NotFound, cause: e,
		message: e.message + "; its mirrors failed too: " + strings.Join(more, "; ")}
}

func status(codes ...int) func(error) bool {
	return func(err error) bool {
		var answer *transport.Error
		if !errors.As(err, &answer) {
			return false
		}
		for _, code := range codes {
			if answer.StatusCode == code {
				return true
			}
		}
		return false
	}
}

func serverError(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode >= http.StatusInternalServerError
}

func noSuchHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && !dns.IsTimeout
}

func wrongCertificate(err error) bool {
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		verify   *tls.CertificateVerificationError
	)
	return errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid) || errors.As(err, &verify)
}

func plainHTTP(err error) bool {
	return strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") || strings.Contains(err.Error(), "first record does not look like a TLS handshake")
}

func timeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errStalled) ||
		errors.As(err, &network) && network.Timeout()
}
