package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIssue(t *testing.T) {
	authority, err := NewAuthority("test-ca")
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority.CertPEM))

	tests := map[string]struct {
		request Request
		usage   x509.ExtKeyUsage
		refused x509.ExtKeyUsage
	}{
		"a client certificate names its user and groups and cannot serve": {
			request: Request{Usage: ForClient, CommonName: "alice", Organizations: []string{"team"}},
			usage:   x509.ExtKeyUsageClientAuth,
			refused: x509.ExtKeyUsageServerAuth,
		},
		"a serving certificate holds its names and cannot be a client": {
			request: Request{
				Usage: ForServer, CommonName: "node-1",
				DNSNames: []string{"localhost", "node-1"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)},
			},
			usage:   x509.ExtKeyUsageServerAuth,
			refused: x509.ExtKeyUsageClientAuth,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pair, err := authority.Issue(tc.request)
			require.NoError(t, err)
			loaded, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
			require.NoError(t, err, "key and certificate belong together")

			cert, err := x509.ParseCertificate(loaded.Certificate[0])
			require.NoError(t, err)
			assert.Equal(t, tc.request.CommonName, cert.Subject.CommonName)
			assert.Equal(t, tc.request.Organizations, cert.Subject.Organization)
			assert.False(t, cert.IsCA)
			assert.True(t, cert.NotBefore.Before(time.Now()))

			_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{tc.usage}})
			assert.NoError(t, err)
			_, err = cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{tc.refused}})
			assert.Error(t, err)
			for _, dnsName := range tc.request.DNSNames {
				assert.NoError(t, cert.VerifyHostname(dnsName))
			}
			for _, ip := range tc.request.IPs {
				assert.NoError(t, cert.VerifyHostname(ip.String()))
			}
		})
	}

	t.Run("a request without a usage is refused", func(t *testing.T) {
		_, err := authority.Issue(Request{CommonName: "alice"})
		assert.ErrorContains(t, err, "usage")
	})
}

func TestParseAuthority(t *testing.T) {
	one, err := NewAuthority("one")
	require.NoError(t, err)
	two, err := NewAuthority("two")
	require.NoError(t, err)
	leaf, err := one.Issue(Request{Usage: ForClient, CommonName: "alice"})
	require.NoError(t, err)

	tests := map[string]struct {
		pair    Pair
		wantErr string
	}{
		"a stored authority is read back":         {pair: one.Pair},
		"the key of another authority is refused": {pair: Pair{one.CertPEM, two.KeyPEM}, wantErr: "does not belong"},
		"a leaf certificate is refused":           {pair: leaf, wantErr: "not one of an authority"},
		"an empty file is refused":                {pair: Pair{nil, one.KeyPEM}, wantErr: "no PEM block"},
		"a bundle is refused": {
			pair:    Pair{append(append([]byte{}, one.CertPEM...), two.CertPEM...), one.KeyPEM},
			wantErr: "more than one",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAuthority(tc.pair)
			if tc.wantErr != "" {
				assert.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			_, err = got.Issue(Request{Usage: ForClient, CommonName: "bob"})
			assert.NoError(t, err)
		})
	}
}
