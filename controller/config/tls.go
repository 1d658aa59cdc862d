package config

import (
	"crypto/tls"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/gangline/gangline/controller/api/config/v1alpha1"
)

func tlsVersions() map[string]uint16 {
	return map[string]uint16{
		"":    0, // Go's default
		"1.0": tls.VersionTLS10,
		"1.1": tls.VersionTLS11,
		"1.2": tls.VersionTLS12,
		"1.3": tls.VersionTLS13,
	}
}

// ApplyTLS sets a server's protocol versions, ciphers and application protocols.
// The options are validated ones: a name that is not known counts as not given.
func ApplyTLS(options v1alpha1.TLS, c *tls.Config) {
	c.MinVersion = tlsVersions()[options.MinVersion]
	c.NextProtos = []string{"http/1.1"}
	if len(options.NextProtos) > 0 {
		c.NextProtos = slices.Clone(options.NextProtos)
	}
	if suites, err := cliflag.TLSCipherSuites(options.CipherSuites); err == nil && len(suites) > 0 {
		c.CipherSuites = suites
	}
}

func validateTLS(options v1alpha1.TLS) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("tls")
	versions := tlsVersions()
	if _, known := versions[options.MinVersion]; !known {
		delete(versions, "")
		errs = append(errs, field.NotSupported(path.Child("minVersion"), options.MinVersion, slices.Sorted(maps.Keys(versions))))
	}
	for i, name := range options.CipherSuites {
		if _, err := cliflag.TLSCipherSuites([]string{name}); err != nil {
			errs = append(errs, field.NotSupported(path.Child("cipherSuites").Index(i), name, cliflag.TLSCipherPossibleValues()))
		}
	}
	return errs
}
