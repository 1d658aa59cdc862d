package mpi

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
)

// MinSecret is the length in bytes that the secret of DeriveKeys has at least.
const MinSecret = 32

// The purposes of the derived keys. They are part of the derivation: another
// text is another key.
const (
	purposeHost   = "gangline ssh host v1 "
	purposeClient = "gangline ssh client v1 "
)

// Keys are the SSH keys of one allocation: what its services show and what opens
// them.
type Keys struct {
	// HostPrivate and ClientPrivate are OpenSSH private keys (PEM, ed25519,
	// without a passphrase).
	HostPrivate, ClientPrivate []byte
	// HostPublic and ClientPublic are their public halves, one authorized_keys
	// line each, ended by a line break.
	HostPublic, ClientPublic []byte
}

// DeriveKeys makes the keys of an allocation from a secret, by HKDF-SHA256 (RFC
// 5869). The same input always gives the same bytes, so nobody has to store
// them; who knows one allocation's keys learns nothing of another's.
func DeriveKeys(secret []byte, allocation string) (Keys, error) {
	if len(secret) < MinSecret {
		return Keys{}, fmt.Errorf("deriving SSH keys: the secret has %d bytes and must have %d random ones", len(secret), MinSecret)
	}
	if allocation == "" {
		return Keys{}, errors.New("deriving SSH keys: no allocation is named")
	}
	var k Keys
	var err error
	if k.HostPrivate, k.HostPublic, err = derive(secret, purposeHost+allocation); err != nil {
		return Keys{}, fmt.Errorf("deriving the SSH host key of %s: %w", allocation, err)
	}
	if k.ClientPrivate, k.ClientPublic, err = derive(secret, purposeClient+allocation); err != nil {
		return Keys{}, fmt.Errorf("deriving the SSH client key of %s: %w", allocation, err)
	}
	return k, nil
}

func derive(secret []byte, info string) (private, public []byte, err error) {
	seed, err := hkdf.Key(sha256.New, secret, nil, info, ed25519.SeedSize)
	if err != nil {
		return nil, nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, nil, err
	}
	return marshalOpenSSH(key, signer.PublicKey()), ssh.MarshalAuthorizedKey(signer.PublicKey()), nil
}
