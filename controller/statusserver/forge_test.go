package statusserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// forger signs tokens with the API server's own key: only so can there be one
// that has expired already, since the API gives none for less than ten minutes.
type forger struct {
	key    *ecdsa.PrivateKey
	header string
	claims map[string]any
}

// newForger takes header and claims from a real token.
func newForger(t *testing.T, clusterDir, token string) *forger {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clusterDir, "pki", "sa.key"))
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	f := &forger{}
	f.key, err = x509.ParseECPrivateKey(block.Bytes)
	require.NoError(t, err)
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	f.header = parts[0]
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(claims, &f.claims))
	return f
}

// token is one that expires in so long, or has so long ago.
func (f *forger) token(t *testing.T, in time.Duration) string {
	t.Helper()
	return f.sign(t, f.key, in)
}

func (f *forger) withOwnKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return f.sign(t, key, time.Hour)
}

func (f *forger) sign(t *testing.T, key *ecdsa.PrivateKey, in time.Duration) string {
	t.Helper()
	now := time.Now()
	f.claims["iat"] = now.Add(-2 * time.Hour).Unix()
	f.claims["nbf"] = f.claims["iat"]
	f.claims["exp"] = now.Add(in).Unix()
	claims, err := json.Marshal(f.claims)
	require.NoError(t, err)
	signed := f.header + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, key, sum[:])
	require.NoError(t, err)
	signature := make([]byte, 64) // ES256: the two numbers, one after the other
	a.FillBytes(signature[:32])
	b.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
