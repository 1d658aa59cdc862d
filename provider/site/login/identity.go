package login

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

// identity is what the user shows.
type identity struct {
	signer ssh.Signer
	// words say what it is, for errors.
	words string
}

func (c Config) identity(now time.Time) (identity, error) {
	text, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return identity{}, fmt.Errorf("reading the key of %s: %w", c.User, err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return identity{}, fmt.Errorf("reading the key of %s: %s has a passphrase, which nobody is there to type; make one without", c.User, c.KeyFile)
	}
	if err != nil {
		return identity{}, fmt.Errorf("reading the key of %s in %s: %w", c.User, c.KeyFile, err)
	}
	id := identity{signer, fmt.Sprintf("the key %s (%s)", ssh.FingerprintSHA256(signer.PublicKey()), c.KeyFile)}
	if c.CertificateFile == "" {
		return id, nil
	}
	if text, err = os.ReadFile(c.CertificateFile); err != nil {
		return identity{}, fmt.Errorf("reading the certificate of %s: %w", c.User, err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return identity{}, fmt.Errorf("reading the certificate of %s in %s: %w", c.User, c.CertificateFile, err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return identity{}, fmt.Errorf("reading the certificate of %s: %s holds a bare key", c.User, c.CertificateFile)
	}
	if end := cert.ValidBefore; end != ssh.CertTimeInfinity && now.Unix() >= int64(end) {
		return identity{}, fmt.Errorf("the certificate of %s in %s has ended at %s; have it renewed", c.User, c.CertificateFile, time.Unix(int64(end), 0).UTC().Format(time.RFC3339))
	}
	if id.signer, err = ssh.NewCertSigner(cert, signer); err != nil {
		return identity{}, fmt.Errorf("the certificate in %s is not of the key in %s: %w", c.CertificateFile, c.KeyFile, err)
	}
	id.words += fmt.Sprintf(" with the certificate %q (%s)", cert.KeyId, c.CertificateFile)
	return id, nil
}
