package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/crypto/ssh"
)

// authorizedKeys open a service.
type authorizedKeys []ssh.PublicKey

// parseAuthorizedKeys reads authorized_keys lines (sshd(8), "AUTHORIZED_KEYS FILE
// FORMAT"). There must be a key: a service that nobody can open helps nobody.
func parseAuthorizedKeys(text []byte, logger *slog.Logger) (authorizedKeys, error) {
	var keys authorizedKeys
	var problem error
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, comment, options, _, err := ssh.ParseAuthorizedKey(line)
		switch {
		case err != nil:
			problem = err
			logger.Warn("a line of authorized SSH keys cannot be read", "error", err)
		case len(options) > 0:
			logger.Warn("an authorized SSH key is left out: its options are not supported", "options", options, "comment", comment)
		default:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("reading the SSH keys that are authorized: there is none: %w", errors.Join(problem, errors.New("give at least one line of a public key")))
	}
	return keys, nil
}

// algorithms are the signatures that clients may make with the keys. An RSA key
// signs by SHA-2 only (RFC 8332).
func (k authorizedKeys) algorithms() []string {
	var all []string
	for _, key := range k {
		of := []string{key.Type()}
		if key.Type() == ssh.KeyAlgoRSA {
			of = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, a := range of {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// admit lets a client with a key in, unless further refuses it: that one is told
// why, by a banner.
func (k authorizedKeys) admit(key ssh.PublicKey, further func(ssh.PublicKey) error) error {
	same := func(authorized ssh.PublicKey) bool { return bytes.Equal(authorized.Marshal(), key.Marshal()) }
	if !slices.ContainsFunc(k, same) {
		return errors.New("the key is not authorized")
	}
	if further == nil {
		return nil
	}
	if err := further(key); err != nil {
		return &ssh.BannerError{Err: err, Message: "gangline: " + err.Error() + "\n"}
	}
	return nil
}
