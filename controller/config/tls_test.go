package config

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestApplyTLS(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want *tls.Config
	}{
		"nothing said: Go's versions, and no HTTP/2": {
			want: &tls.Config{NextProtos: []string{"http/1.1"}},
		},
		"HTTP/2 on": {
			file: `tls: {nextProtos: [h2, http/1.1]}`,
			want: &tls.Config{NextProtos: []string{"h2", "http/1.1"}},
		},
		"1.0": {file: `tls: {minVersion: "1.0"}`, want: &tls.Config{MinVersion: tls.VersionTLS10, NextProtos: []string{"http/1.1"}}},
		"1.1": {file: `tls: {minVersion: "1.1"}`, want: &tls.Config{MinVersion: tls.VersionTLS11, NextProtos: []string{"http/1.1"}}},
		"1.2 with ciphers, an insecure one too": {
			file: `tls: {minVersion: "1.2", cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_128_CBC_SHA]}`,
			want: &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
				CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_128_CBC_SHA},
			},
		},
		"1.3": {file: `tls: {minVersion: "1.3"}`, want: &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(t, tc.file, "")
			require.NoError(t, err)
			// As controller-runtime hands it over.
			got := tls.Config{NextProtos: []string{"h2"}} //nolint:gosec // the version is what is tested
			ApplyTLS(c.TLS, &got)
			assert.Equal(t, tc.want.MinVersion, got.MinVersion)
			assert.Equal(t, tc.want.NextProtos, got.NextProtos)
			assert.Equal(t, tc.want.CipherSuites, got.CipherSuites)
		})
	}
}
