package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzOptions(f *testing.F) {
	for _, line := range []string{
		"-D -e -p 2222", "-Dep22", "-f /etc/ssh/sshd_config -o Port=1 -o HostKey=/k", "-i", "-t", "-p 0", "-p 65536", "-", "x", "-o", "-E", "-h a -h b", "-V",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		o, err := parseOptions(args)
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		assert.LessOrEqual(t, len(o.settings.ports)+len(o.settings.hostKeys), len(args))
		checkSettings(t, o.settings)
	})
}

func FuzzSettings(f *testing.F) {
	for _, text := range []string{
		"Port 2222\nListenAddress 0.0.0.0\nHostKey /k\nAuthorizedKeysFile .ssh/a %h/b\n", "port=1\nPORT 2\n", "Match User x\nPort 1", "ListenAddress [::1]:22 rdomain x",
		"AuthorizedKeysFile \"%h/%u/%%\" # all", "Port", "Port \"\"", "=", "#", "Port 1 #", "HostKey \xff",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s settings
		if s.readFile(text) != nil {
			return
		}
		checkSettings(t, s)
		merged := settings{}.merge(s)
		assert.Equal(t, s.ports, merged.ports)
		for _, file := range s.authorizedKeys {
			assert.True(t, strings.HasPrefix(expand(file, "/home/ada", "ada"), "/"), file)
		}
	})
}

func checkSettings(t *testing.T, s settings) {
	t.Helper()
	for _, port := range s.ports {
		assert.True(t, port > 0 && port < 1<<16, "%d", port)
	}
	assert.Len(t, s.listen(), max(1, len(s.listen())))
	for _, address := range s.listen() {
		assert.Contains(t, address, ":")
	}
}
