package agent_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/spool"
)

// unusedPort is a port of the loopback that nobody has.
func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAContainerWhoseCommandIsSSHD(t *testing.T) {
	for sentence, test := range map[string]struct {
		argv func(port int) []string
		env  []string
		host string
	}{
		"the command itself": {
			argv: func(port int) []string {
				return []string{"/no/such/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config", "-o", fmt.Sprint("ListenAddress=127.0.0.1:", port)}
			},
			host: "pi-worker-0",
		},
		"a shell's line": {
			argv: func(port int) []string {
				return []string{"sh", "-c", fmt.Sprintf("mkdir -p /tmp/x; exec /no/such/sbin/sshd -De -o ListenAddress=127.0.0.1:%d", port)}
			},
			host: "pi-worker-0",
		},
		"without a private root": {
			argv: func(port int) []string {
				return []string{"/no/such/sbin/sshd", "-De", "-o", fmt.Sprint("ListenAddress=127.0.0.1:", port)}
			},
			env: []string{"GANGLINE_PRIVATE_ROOT=off"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			port := unusedPort(t)
			w := newWorld(t, [][]int{{0}}, test.env...)
			w.publishNames()
			o := w.orders("u", "")
			o.Containers[0].Argv = test.argv(port)
			o.Containers[0].SSHD = &spool.SSHD{Program: "/no/such/sbin/sshd"}
			w.run(0, o)
			w.waitLog(0, "u", "server listening")
			client, err := sshd.Dial(t.Context(), fmt.Sprint("127.0.0.1:", port), sshd.Credentials{HostPublicKey: w.keys.HostPublic, ClientKey: w.keys.ClientPrivate})
			require.NoError(t, err)
			var out strings.Builder
			code, err := client.Run(t.Context(), sshclient.Session{Request: "exec", Argument: "hostname; echo $GANGLINE_CONTAINER; exit 6", Stdout: &out})
			require.NoError(t, err)
			assert.Equal(t, 6, code)
			assert.True(t, strings.HasPrefix(out.String(), test.host), out.String())
			assert.Contains(t, out.String(), "\nu-main-0\n")
			require.NoError(t, client.Close())
			w.stop(0, "u", 5)
			assert.Equal(t, 0, exitCode(t, w.done(0, "u")), "as sshd ends")
		})
	}
}

func TestAPortThatIsAnothersIsToldInAnEvent(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	w := newWorld(t, [][]int{{0}})
	w.publishNames()
	o := w.orders("u", "")
	o.Containers[0].Argv = []string{"/no/such/sbin/sshd", "-De", "-o", "ListenAddress=" + taken.Addr().String()}
	o.Containers[0].SSHD = &spool.SSHD{Program: "/no/such/sbin/sshd"}
	w.run(0, o)
	p := w.podWhere(0, "has an Event", func(p spool.PodStatus) bool { return len(p.Events) > 0 })
	event := p.Events[0]
	assert.Equal(t, []string{"main", "Warning", "PortTaken"}, []string{event.Container, event.Type, event.Reason})
	assert.Contains(t, event.Message, fmt.Sprintf("sshd cannot listen on %s: another process on HPC node hpc1 has that port. It listens on 127.0.0.1:", taken.Addr()))
	w.stop(0, "u", 5)
	w.done(0, "u")
}
