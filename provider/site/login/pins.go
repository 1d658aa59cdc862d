package login

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// pins are the host keys that a login node may show.
type pins struct {
	keys, authorities, revoked []ssh.PublicKey
}

// HostKeyError says that a login node has shown a key that is not pinned.
type HostKeyError struct {
	Address string
	// Seen is the key's type and fingerprint, Pinned are those of the configuration.
	Seen   string
	Pinned []string
	// Why is more than that, of certificates.
	Why string
}

func (e *HostKeyError) Error() string {
	text := fmt.Sprintf("the login node %s shows the host key %s, and pinned is %s", e.Address, e.Seen, strings.Join(e.Pinned, ", "))
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return text + "; somebody may be in between. If the site has changed its key, ask it for the new one and put it into knownHosts"
}

// parsePins reads known_hosts lines and bare public keys.
func parsePins(text string) (pins, error) {
	var p pins
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		marker, key, err := parsePin(line)
		if err != nil {
			return p, fmt.Errorf("knownHosts, line %d: %w", i+1, err)
		}
		switch marker {
		case "":
			p.keys = append(p.keys, key)
		case "cert-authority":
			p.authorities = append(p.authorities, key)
		case "revoked":
			p.revoked = append(p.revoked, key)
		default:
			return p, fmt.Errorf("knownHosts, line %d: the marker @%s is not known", i+1, marker)
		}
	}
	if len(p.keys)+len(p.authorities) == 0 {
		return p, errors.New("knownHosts is empty: pin the login node's key (ssh-keyscan prints it; compare it with what the site publishes)")
	}
	return p, nil
}

func parsePin(line string) (marker string, key ssh.PublicKey, err error) {
	if key, _, _, _, err = ssh.ParseAuthorizedKey([]byte(line)); err == nil && !strings.HasPrefix(line, "@") {
		if first, _, _ := strings.Cut(line, " "); first == key.Type() {
			return "", key, nil
		}
	}
	marker, _, key, _, _, err = ssh.ParseKnownHosts([]byte(line))
	if errors.Is(err, io.EOF) {
		err = errors.New("there is no key")
	}
	return marker, key, err
}

func holds(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// check is an ssh.HostKeyCallback.
func (p pins) check(address string, _ net.Addr, key ssh.PublicKey) error {
	cert, isCert := key.(*ssh.Certificate)
	bare := key
	if isCert {
		bare = cert.Key
	}
	e := &HostKeyError{Address: address, Seen: describe(key), Pinned: p.describe()}
	switch {
	case holds(p.revoked, bare) || isCert && holds(p.revoked, cert.SignatureKey):
		e.Why = "it is revoked"
		return e
	case holds(p.keys, bare):
		return nil
	case !isCert:
		return e
	}
	checker := ssh.CertChecker{IsHostAuthority: func(auth ssh.PublicKey, _ string) bool { return holds(p.authorities, auth) }}
	if err := checker.CheckHostKey(address, nil, key); err != nil {
		e.Why = err.Error()
		return e
	}
	return nil
}

func describe(key ssh.PublicKey) string {
	if cert, ok := key.(*ssh.Certificate); ok {
		return fmt.Sprintf("%s of a certificate by %s", describe(cert.Key), ssh.FingerprintSHA256(cert.SignatureKey))
	}
	return key.Type() + " " + ssh.FingerprintSHA256(key)
}

func (p pins) describe() []string {
	var all []string
	for _, k := range p.keys {
		all = append(all, describe(k))
	}
	for _, k := range p.authorities {
		all = append(all, "the authority "+describe(k))
	}
	return all
}

// algorithms are those by which the login node can prove a pinned key. It may have
// keys of other types as well, which nobody has pinned.
func (p pins) algorithms() []string {
	var all []string
	if len(p.authorities) > 0 {
		all = append(all, ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01)
	}
	for _, k := range p.keys {
		if k.Type() == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		all = append(all, k.Type())
	}
	return all
}
