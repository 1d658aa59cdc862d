package mpi

import "golang.org/x/crypto/ssh"

// SSHAlgorithms is what a gang's SSH services and clients agree on: forward
// secret key exchanges and authenticated ciphers, the cheapest first, because a
// launcher opens one connection a rank. All of it is in OpenSSH since 6.5.
func SSHAlgorithms() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519},
		Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305},
		MACs:         []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM},
	}
}
