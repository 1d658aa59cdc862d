package mpi

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/pem"

	"golang.org/x/crypto/ssh"
)

// marshalOpenSSH writes a private key in OpenSSH's own format (PROTOCOL.key in
// its source), unencrypted. ssh.MarshalPrivateKey does the same with a random
// check value; here it comes from the public key, so that one key is one text.
func marshalOpenSSH(key ed25519.PrivateKey, public ssh.PublicKey) []byte {
	check := binary.BigEndian.Uint32(key.Public().(ed25519.PublicKey))
	secret := ssh.Marshal(struct {
		Check1, Check2  uint32
		Type            string
		Public, Private []byte
		Comment         string
	}{check, check, ssh.KeyAlgoED25519, key.Public().(ed25519.PublicKey), key, ""})
	const cipherBlock = 8 // that of the cipher "none"
	for pad := byte(1); len(secret)%cipherBlock != 0; pad++ {
		secret = append(secret, pad)
	}
	body := ssh.Marshal(struct {
		Cipher, KDF, KDFOptions string
		Keys                    uint32
		Public, Secret          []byte
	}{"none", "none", "", 1, public.Marshal(), secret})
	return pem.EncodeToMemory(&pem.Block{
		Type:  "OPENSSH PRIVATE KEY",
		Bytes: append([]byte("openssh-key-v1\x00"), body...),
	})
}
