package daemon

import (
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	tests := map[string]struct {
		args []string
		want options
		says string
	}{
		"Kubeflow's": {args: []string{"-De", "-f", "/home/mpiuser/.sshd_config"}, want: options{foreground: true, configFile: "/home/mpiuser/.sshd_config"}},
		"a value in the same word, ports add up": {
			args: []string{"-p2200", "-p", "2201"}, want: options{settings: settings{ports: []int{2200, 2201}}},
		},
		"settings": {
			args: []string{"-o", "Port=2300", "-oAuthorizedKeysFile /keys/a", "-h", "/keys/host"},
			want: options{settings: settings{ports: []int{2300}, authorizedKeys: []string{"/keys/a"}, hostKeys: []string{"/keys/host"}}},
		},
		"what means nothing here":     {args: []string{"-4", "-C", "user=x", "-g", "10", "-u0", "-r"}},
		"a test of the configuration": {args: []string{"-t"}, want: options{check: true}},
		"debugging stays":             {args: []string{"-ddd"}, want: options{foreground: true, debug: true}},
		"quiet, with a log":           {args: []string{"-q", "-E", "/tmp/log"}, want: options{quiet: true, logFile: "/tmp/log"}},
		"its version":                 {args: []string{"-V"}, want: options{version: true}},
		"a value that is missing":     {args: []string{"-Df"}, want: options{foreground: true}, says: "option -f needs a value"},
		"an option nobody knows":      {args: []string{"-Z"}, says: "unknown option -Z"},
		"inetd":                       {args: []string{"-i"}, says: "inetd"},
		"no port":                     {args: []string{"-p", "ssh"}, says: `"ssh" is no port`},
		"a setting without a value":   {args: []string{"-o", "Port"}, says: "Port has no value"},
		"an operand":                  {args: []string{"start"}, says: "extra argument start"},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			got, err := parseOptions(test.args)
			if test.says != "" {
				assert.ErrorContains(t, err, test.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestSettings(t *testing.T) {
	var s settings
	require.NoError(t, s.readFile([]byte(`# mpi-operator's base image
PidFile /home/mpiuser/sshd.pid
HostKey /home/mpiuser/.ssh/id_rsa
StrictModes no
Port 2222 # of the image
  port=2223
AuthorizedKeysFile .ssh/authorized_keys "/keys/more"
AuthorizedKeysFile /never
ListenAddress 0.0.0.0
Match User root
  Port 22
`)))
	assert.Equal(t, settings{
		ports: []int{2222, 2223}, hostKeys: []string{"/home/mpiuser/.ssh/id_rsa"},
		authorizedKeys: []string{".ssh/authorized_keys", "/keys/more"}, addresses: []string{"0.0.0.0"},
	}, s)
	assert.ErrorContains(t, s.readFile([]byte("\nPort many")), "line 2")

	line := settings{ports: []int{99}}
	assert.Equal(t, []int{99}, line.merge(s).ports, "the command line comes first")
	assert.Equal(t, s.authorizedKeys, line.merge(s).authorizedKeys)
}

func TestListen(t *testing.T) {
	tests := map[string]struct {
		given settings
		want  []string
	}{
		"nothing said is Kubeflow's port":      {settings{}, []string{":2222"}},
		"all ports":                            {settings{ports: []int{22, 23}}, []string{":22", ":23"}},
		"an address":                           {settings{addresses: []string{"10.0.0.1"}, ports: []int{22}}, []string{"10.0.0.1:22"}},
		"an address with its port":             {settings{addresses: []string{"10.0.0.1:24", "[::1]:25"}, ports: []int{22}}, []string{"10.0.0.1:24", "[::1]:25"}},
		"an address of IP version 6 by itself": {settings{addresses: []string{"::1"}, ports: []int{22}}, []string{"[::1]:22"}},
	}
	for sentence, test := range tests {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, test.want, test.given.listen())
		})
	}
}

func TestExpand(t *testing.T) {
	for file, want := range map[string]string{
		".ssh/authorized_keys": "/home/me/.ssh/authorized_keys",
		"%h/keys":              "/home/me/keys",
		"/etc/keys/%u":         "/etc/keys/me",
		"/a%%u":                "/a%u",
	} {
		assert.Equal(t, want, expand(file, "/home/me", "me"), file)
	}
}

func TestATakenPortIsReplacedByAnother(t *testing.T) {
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	first, err := open([]string{"127.0.0.1:0"}, logger)
	require.NoError(t, err)
	defer first[0].Close()
	assert.Empty(t, first[0].taken)
	address := first[0].Addr().String()
	second, err := open([]string{address}, logger)
	require.NoError(t, err)
	defer second[0].Close()
	assert.Equal(t, address, second[0].taken)
	assert.NotEqual(t, address, second[0].Addr().String())

	_, err = open([]string{"192.0.2.1:2222"}, logger)
	assert.ErrorContains(t, err, "listening on 192.0.2.1:2222")
}
