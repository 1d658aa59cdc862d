package sshd

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/mpi/sshclient"
)

// FuzzRequests sends a session any requests: pairs of a type and a payload, each with its
// length before it.
func FuzzRequests(f *testing.F) {
	add := func(requests ...any) {
		var text []byte
		for i := 0; i < len(requests); i += 2 {
			for _, part := range [][]byte{[]byte(requests[i].(string)), ssh.Marshal(requests[i+1])} {
				text = append(binary.BigEndian.AppendUint16(text, uint16(len(part))), part...)
			}
		}
		f.Add(text)
	}
	type none struct {
		None []byte `ssh:"rest"`
	}
	add("env", sshclient.SetEnv{Name: "A", Value: "1"}, "pty-req", sshclient.PTYRequest{Term: "xterm", Columns: 1 << 31, Rows: 0}, "exec", sshclient.Text{Value: "ls"})
	add("env", sshclient.SetEnv{Name: "LD_PRELOAD", Value: "x"}, "env", sshclient.SetEnv{Name: "A\n", Value: "\x00"}, "shell", none{})
	add("subsystem", sshclient.Text{Value: "sftp"}, "signal", sshclient.Text{Value: "TERM"}, "window-change", sshclient.WindowChange{})
	add(sshclient.RequestExec, sshclient.Text{Value: `{"container":"main","argv":["a","b"]}`})
	add(sshclient.RequestExec, sshclient.Text{Value: `{"argv":[],"attach":{}}`}, "x11-req", none{}, "auth-agent-req@openssh.com", none{})
	for range 2 {
		add("env", sshclient.SetEnv{Name: "A", Value: strings.Repeat("x", 60_000)})
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		part := func() []byte {
			if len(text) < 2 {
				text = nil
				return nil
			}
			n := min(int(binary.BigEndian.Uint16(text)), len(text)-2)
			p := text[2 : 2+n]
			text = text[2+n:]
			return p
		}
		n := &session{
			subsystems: []string{"sftp"}, logger: slog.New(slog.DiscardHandler),
			resize: make(chan Size, 1), signals: make(chan string, queuedSignals),
		}
		for len(text) > 0 {
			kind := string(part())
			payload := part()
			ok, start := n.handle(&ssh.Request{Type: kind, Payload: payload})
			assert.False(t, start && !ok, "nothing starts that was refused")
			if start {
				assert.Contains(t, []string{"shell", "exec", "subsystem", sshclient.RequestExec}, kind)
				checkDescribed(t, kind, payload, n.command)
				n.ended = make(chan struct{}) // as if it ran: nothing else may start
			}
		}
		total := 0
		for _, entry := range n.command.Env {
			name, _, found := strings.Cut(entry, "=")
			assert.True(t, found && posix.MatchString(name), entry)
			assert.False(t, ofThePod(name) || strings.ContainsRune(entry, 0), entry)
			total += len(entry)
		}
		assert.LessOrEqual(t, total, maxEnv)
	})
}

var posix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkDescribed: a command is exactly what the client said, in one of its forms.
func checkDescribed(t *testing.T, kind string, payload []byte, c Command) {
	t.Helper()
	var m sshclient.Text
	_ = ssh.Unmarshal(payload, &m)
	switch kind {
	case "exec":
		assert.Equal(t, m.Value, c.Line)
		assert.NotEmpty(t, c.Line)
	case "subsystem":
		assert.Equal(t, "sftp", c.Subsystem)
	case sshclient.RequestExec:
		var exec sshclient.Exec
		assert.NoError(t, json.Unmarshal([]byte(m.Value), &exec))
		assert.Equal(t, exec.Argv, c.Argv)
	}
}

// FuzzAuthorizedKeys: only lines of a plain key open a service.
func FuzzAuthorizedKeys(f *testing.F) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFg0v5sGCp8ydmpIvhCqSFn0N4UDQWMEKZeQvV1U+Nd0 a"
	for _, text := range []string{key, "# " + key, `command="x" ` + key, "from=\"*\" " + key + "\n" + key, "", "ssh-rsa AAAA", "\x00\n\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseAuthorizedKeys(text, slog.New(slog.DiscardHandler))
		assert.Equal(t, err == nil, len(keys) > 0)
		for _, k := range keys {
			assert.NoError(t, keys.admit(k, nil))
			again, err := parseAuthorizedKeys(ssh.MarshalAuthorizedKey(k), slog.New(slog.DiscardHandler))
			assert.NoError(t, err)
			assert.Len(t, again, 1)
		}
	})
}

// FuzzLoopback: a name of the loopback stands for addresses of the loopback.
func FuzzLoopback(f *testing.F) {
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "127.1", "::ffff:127.0.0.1", "0.0.0.0", "LOCALHOST", "127.0.0.1.nip.io", "169.254.169.254", "::1%eth0"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		for _, address := range loopback(host) {
			assert.True(t, strings.HasPrefix(address, "127.") || address == "::1", address)
		}
	})
}
