package spool

import (
	"bytes"
	"encoding/json"
	"fmt"

	"filippo.io/age"
)

// Key is an agent's key pair. It lives in the agent's memory and is never
// written anywhere.
type Key struct {
	identity *age.X25519Identity
}

// NewKey makes a key pair.
func NewKey() (*Key, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("making the agent's key: %w", err)
	}
	return &Key{identity: id}, nil
}

// Recipient is the public half, as written in Agent.Recipient.
func (k *Key) Recipient() string { return k.identity.Recipient().String() }

// Open decrypts what Seal made for this key.
func (k *Key) Open(sealed []byte, v any) error {
	r, err := age.Decrypt(bytes.NewReader(sealed), k.identity)
	if err != nil {
		return fmt.Errorf("opening sealed orders: %w", err)
	}
	if err := json.NewDecoder(r).Decode(v); err != nil {
		return fmt.Errorf("decoding sealed orders: %w", err)
	}
	return nil
}

// Seal encrypts v, as JSON, so that only the recipient's agent can read it.
func Seal(recipient string, v any) ([]byte, error) {
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's key: %w", err)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, fmt.Errorf("sealing orders: %w", err)
	}
	if err := json.NewEncoder(w).Encode(v); err != nil {
		return nil, fmt.Errorf("sealing orders: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("sealing orders: %w", err)
	}
	return out.Bytes(), nil
}
