// Package pki makes the keys and certificates of a dev cluster.
//
// It works on values only and touches no files, so that the same functions serve the control plane's own folder
// and the credentials handed to a virtual node. Keys are ECDSA P-256: making all of them takes milliseconds, where
// RSA would take seconds of the start-up time.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLifetime   = 10 * 365 * 24 * time.Hour
	certificateLifetime = 365 * 24 * time.Hour

	// clockSkew backdates certificates, for machines that share the folder and whose clocks differ a little.
	clockSkew = time.Hour

	certificateType = "CERTIFICATE"
	privateKeyType  = "EC PRIVATE KEY"
	publicKeyType   = "PUBLIC KEY"
)

// Pair is a certificate and its private key, PEM-encoded as Kubernetes components read them.
type Pair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// Usage says which side of a TLS connection a certificate may stand on.
type Usage int

// The two usages. One certificate never has both: a leaked serving certificate must not open the API.
const (
	ForClient Usage = iota + 1
	ForServer
)

// Request describes a certificate to be issued.
type Request struct {
	Usage Usage
	// CommonName is the user name of a client, or the server's own name.
	CommonName string
	// Organizations are the groups of a client.
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
}

// Authority is a certificate authority that can issue certificates.
type Authority struct {
	Pair

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(commonName string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of authority %s: %w", commonName, err)
	}
	template, err := newTemplate(pkix.Name{CommonName: commonName}, authorityLifetime)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", commonName, err)
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", commonName, err)
	}
	return ParseAuthority(pair)
}

// ParseAuthority reads back an authority that was stored as PEM.
func ParseAuthority(pair Pair) (*Authority, error) {
	certBlock, err := decode(pair.CertPEM, certificateType)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(certBlock)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate: %w", err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("certificate %q is not one of an authority", cert.Subject.CommonName)
	}
	keyBlock, err := decode(pair.KeyPEM, privateKeyType)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the authority's key does not belong to its certificate")
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Issue makes a key and a certificate for it, signed by the authority.
func (a *Authority) Issue(request Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of %s: %w", request.CommonName, err)
	}
	subject := pkix.Name{CommonName: request.CommonName, Organization: request.Organizations}
	template, err := newTemplate(subject, certificateLifetime)
	if err != nil {
		return Pair{}, fmt.Errorf("issue a certificate to %s: %w", request.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.DNSNames = request.DNSNames
	template.IPAddresses = request.IPs
	switch request.Usage {
	case ForClient:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	case ForServer:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	default:
		return Pair{}, fmt.Errorf("issue a certificate to %s: unknown usage %d", request.CommonName, request.Usage)
	}
	pair, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue a certificate to %s: %w", request.CommonName, err)
	}
	return pair, nil
}

// NewSigningKey makes the key pair that signs and checks ServiceAccount tokens.
func NewSigningKey() (privatePEM, publicPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the token signing key: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the token signing key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the token checking key: %w", err)
	}
	return encode(privateKeyType, private), encode(publicKeyType, public), nil
}

func newTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(lifetime),
		BasicConstraintsValid: true,
	}, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, fmt.Errorf("sign: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key: %w", err)
	}
	return Pair{CertPEM: encode(certificateType, der), KeyPEM: encode(privateKeyType, keyDER)}, nil
}

func encode(blockType string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der})
}

func decode(data []byte, blockType string) ([]byte, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != blockType {
		return nil, fmt.Errorf("no PEM block of type %s", blockType)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("more than one PEM block where one %s was expected", blockType)
	}
	return block.Bytes, nil
}
