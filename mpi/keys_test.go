package mpi_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/test/golden"
)

func secret(b byte) []byte { return bytes.Repeat([]byte{b}, mpi.MinSecret) }

func TestDerivedKeysNeverChange(t *testing.T) {
	keys, err := mpi.DeriveKeys(secret(7), "pi.1")
	require.NoError(t, err)
	again, err := mpi.DeriveKeys(secret(7), "pi.1")
	require.NoError(t, err)
	assert.Equal(t, keys, again)
	golden.Equal(t, "testdata/host-key.pub", string(keys.HostPublic))
	golden.Equal(t, "testdata/client-key.pub", string(keys.ClientPublic))
}

func TestKeysDifferByAllocationSecretAndPurpose(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range []struct {
		secret     []byte
		allocation string
	}{{secret(1), "pi.1"}, {secret(1), "pi.2"}, {secret(2), "pi.1"}} {
		keys, err := mpi.DeriveKeys(in.secret, in.allocation)
		require.NoError(t, err)
		for _, public := range [][]byte{keys.HostPublic, keys.ClientPublic} {
			assert.False(t, seen[string(public)])
			seen[string(public)] = true
		}
	}
}

func TestPrivateAndPublicHalvesBelongTogether(t *testing.T) {
	keys, err := mpi.DeriveKeys(secret(3), "pi.1")
	require.NoError(t, err)
	for name, pair := range map[string]struct{ private, public []byte }{
		"host":   {keys.HostPrivate, keys.HostPublic},
		"client": {keys.ClientPrivate, keys.ClientPublic},
	} {
		t.Run(name, func(t *testing.T) {
			signer, err := ssh.ParsePrivateKey(pair.private)
			require.NoError(t, err)
			assert.Equal(t, string(pair.public), string(ssh.MarshalAuthorizedKey(signer.PublicKey())))

			// OpenSSH itself must read the same key out of the file.
			file := filepath.Join(t.TempDir(), "key")
			require.NoError(t, os.WriteFile(file, pair.private, 0o600))
			out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-y", "-f", file).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, string(pair.public), string(out))
		})
	}
}

func TestDeriveKeysRefuses(t *testing.T) {
	tests := map[string]struct {
		secret     []byte
		allocation string
		says       string
	}{
		"a short secret":  {secret(1)[1:], "pi.1", "has 31 bytes and must have 32"},
		"a nameless gang": {secret(1), "", "no allocation is named"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := mpi.DeriveKeys(test.secret, test.allocation)
			assert.ErrorContains(t, err, test.says)
		})
	}
}
