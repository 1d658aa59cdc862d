package daemon

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/remoteshell"
)

// Variable names the environment variable in which the agent lists the files of
// authorized keys that the container mounts, separated by colons.
const Variable = "GANGLINE_AUTHORIZED_KEYS"

// keys are what the service shows and what opens it.
type keys struct {
	host, authorized []byte
	gang             ssh.PublicKey // nil where the gang's key is not known
}

// loadKeys gathers the keys: the host key that the configuration names, the gang's
// or a new one; as authorized ones the gang's, those mounted, and those that the
// configuration names.
func loadKeys(set settings, gang remoteshell.Files, env func(string) string, logger *slog.Logger) (keys, error) {
	k := keys{host: hostKey(set.hostKeys, logger)}
	if k.host == nil {
		k.host = gang.HostKey
	}
	if k.host == nil {
		var err error
		if k.host, err = newHostKey(); err != nil {
			return k, err
		}
	}
	if len(gang.ClientKey) > 0 {
		signer, err := ssh.ParsePrivateKey(gang.ClientKey)
		if err != nil {
			return k, fmt.Errorf("reading the gang's SSH key: %w", err)
		}
		k.gang = signer.PublicKey()
		k.authorized = ssh.MarshalAuthorizedKey(k.gang)
	}
	files := strings.FieldsFunc(env(Variable), func(r rune) bool { return r == ':' })
	for _, file := range set.authorizedKeys {
		if file != "none" {
			files = append(files, expand(file, env("HOME"), env("USER")))
		}
	}
	for _, file := range files {
		lines, err := os.ReadFile(file)
		if err != nil {
			logger.Warn("authorized keys are missing", "error", err)
			continue
		}
		k.authorized = append(append(k.authorized, lines...), '\n')
	}
	return k, nil
}

// hostKey is the first of the files that is an unencrypted private key.
func hostKey(files []string, logger *slog.Logger) []byte {
	for _, file := range files {
		key, err := os.ReadFile(file)
		if err == nil {
			_, err = ssh.ParsePrivateKey(key)
		}
		if err == nil {
			return key
		}
		logger.Warn("a host key cannot be used", "file", file, "error", err)
	}
	return nil
}

func newHostKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	return pem.EncodeToMemory(block), nil
}
