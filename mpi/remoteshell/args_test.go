package remoteshell

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args []string
		want commandLine
	}{
		"Open MPI 4's launch": {
			[]string{"-x", "pi-node-0-0.pi", "orted", "-mca", "ess", `"env"`},
			commandLine{host: "pi-node-0-0.pi", command: `orted -mca ess "env"`},
		},
		"Open MPI with the arguments that Kubeflow gives": {
			[]string{"-o", "ConnectionAttempts=10", "-x", "pi-node-0-0.pi", "PATH=/a:$PATH ; export PATH ; orted"},
			commandLine{host: "pi-node-0-0.pi", command: "PATH=/a:$PATH ; export PATH ; orted"},
		},
		"Hydra's launch": {
			[]string{"-x", "pi-node-0-0.pi", `"/usr/bin/hydra_pmi_proxy"`, "--control-port", "a:1", "--proxy-id", "0"},
			commandLine{host: "pi-node-0-0.pi", command: `"/usr/bin/hydra_pmi_proxy" --control-port a:1 --proxy-id 0`},
		},
		"pdsh's ssh, as DeepSpeed uses it": {
			[]string{"-2", "-a", "-x", "-lroot", "pi-node-0-0", "export A=b;  cd /w; python t.py"},
			commandLine{host: "pi-node-0-0", command: "export A=b;  cd /w; python t.py"},
		},
		"Horovod's check puts options behind the host": {
			[]string{"-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "h", "-p", "12345", "true"},
			commandLine{host: "h", command: "true", port: "12345"},
		},
		"rsync": {
			[]string{"-l", "me", "h", "rsync", "--server", "-vlogDtpre.iLsfxCIvu", ".", "dir"},
			commandLine{host: "h", command: "rsync --server -vlogDtpre.iLsfxCIvu . dir"},
		},
		"scp -O": {
			[]string{"-x", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes", "-oRemoteCommand=none", "-oRequestTTY=no", "--", "h", "scp -t /tmp"},
			commandLine{host: "h", command: "scp -t /tmp", tty: ttyNever},
		},
		"sftp": {
			[]string{"-oForwardX11 no", "-s", "--", "h", "sftp"},
			commandLine{host: "h", command: "sftp", subsystem: true},
		},
		"a person at a terminal": {
			[]string{"-tt", "user@h"},
			commandLine{host: "h", tty: ttyForce},
		},
		"grouped flags, attached value": {
			[]string{"-Cqnt4p2222", "h", "ls", "-l"},
			commandLine{host: "h", command: "ls -l", quiet: true, noStdin: true, tty: ttyAsk, port: "2222"},
		},
		"everything that means nothing here": {
			[]string{"-4", "-6", "-A", "-a", "-k", "-K", "-X", "-Y", "-y", "-C", "-M", "-g", "-i", "key", "-F", "conf", "-e", "none", "-c", "aes", "-m", "mac",
				"-S", "path", "-J", "jump", "-I", "pkcs", "-b", "addr", "-B", "if", "h", "c"},
			commandLine{host: "h", command: "c"},
		},
		"after -- no option is read": {
			[]string{"--", "h", "-n", "x"},
			commandLine{host: "h", command: "-n x"},
		},
		"an address with user and port": {
			[]string{"ssh://me@h:2222/", "c"},
			commandLine{host: "h", command: "c"},
		},
		"an IPv6 address with port": {
			[]string{"ssh://[fd00::1]:22", "c"},
			commandLine{host: "fd00::1", command: "c"},
		},
		"a user name with an @": {
			[]string{"me@site@h"},
			commandLine{host: "h"},
		},
		"the version": {
			[]string{"-V"},
			commandLine{version: true},
		},
		"a log file, in words": {
			[]string{"-v", "-E", "log", "h", "c"},
			commandLine{host: "h", command: "c", verbose: true, logFile: "log"},
		},
		"forwarding is remembered as unsupported": {
			[]string{"-N", "-L", "8080:localhost:80", "h"},
			commandLine{host: "h", unsupported: "-N"},
		},
		"nothing": {nil, commandLine{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		args []string
		says string
	}{
		"an option that ssh does not know": {[]string{"-Z", "h"}, "unknown option -Z"},
		"an option without its value":      {[]string{"h", "-p"}, "-p needs a value"},
		"a key without a value":            {[]string{"-o", "ConnectTimeout", "h"}, "has no value"},
		"a time that is none":              {[]string{"-o", "ConnectTimeout=soon", "h"}, `"soon" is not a time`},
		"a terminal of another kind":       {[]string{"-o", "RequestTTY=maybe", "h"}, "yes, no, force or auto"},
		"a quote that does not end":        {[]string{"-o", `SetEnv=A="b`, "h"}, "does not end"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args)
			assert.ErrorContains(t, err, test.says)
		})
	}
}

func TestConfigure(t *testing.T) {
	tests := map[string]struct {
		options []string
		want    commandLine
	}{
		"seconds":                          {[]string{"ConnectTimeout=7"}, commandLine{timeout: 7 * time.Second}},
		"a time with units":                {[]string{"connecttimeout 1m30s"}, commandLine{timeout: 90 * time.Second}},
		"the first value counts":           {[]string{"ConnectTimeout=7", "ConnectTimeout=9", "RequestTTY=force", "RequestTTY no"}, commandLine{timeout: 7 * time.Second, tty: ttyForce}},
		"no timeout is the default":        {[]string{"ConnectTimeout=none"}, commandLine{}},
		"blanks around the equals sign":    {[]string{" SetEnv = A=b "}, commandLine{setEnv: []string{"A=b"}}},
		"several variables, one quoted":    {[]string{`SetEnv A=b "C=d e"`}, commandLine{setEnv: []string{"A=b", "C=d e"}}},
		"patterns of names":                {[]string{"SendEnv LANG LC_*"}, commandLine{sendEnv: []string{"LANG", "LC_*"}}},
		"quiet by log level":               {[]string{"LogLevel=QUIET"}, commandLine{quiet: true}},
		"no input":                         {[]string{"StdinNull=yes"}, commandLine{noStdin: true}},
		"forwarding":                       {[]string{"LocalForward=1 h:2"}, commandLine{unsupported: "-o LocalForward"}},
		"no forwarding":                    {[]string{"RemoteCommand=none", "ForkAfterAuthentication=no"}, commandLine{}},
		"what means nothing between hosts": {[]string{"StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "Port=2222", "BatchMode yes", "ControlMaster=auto"}, commandLine{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got commandLine
			for _, option := range test.options {
				require.NoError(t, got.configure(option))
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestEnv(t *testing.T) {
	c := commandLine{setEnv: []string{"A=set"}, sendEnv: []string{"LC_*", "B"}}
	got := c.env([]string{"A=ours", "B=b", "LC_ALL=C", "LANG=de", "SECRET=x"})
	assert.Equal(t, []string{"A=set", "B=b", "LC_ALL=C"}, got)
	assert.Empty(t, commandLine{}.env([]string{"A=ours"}), "nothing is sent unasked")
	all := []string{"A=a", "B=b", "C=c", "GANGLINE_CARRY=A,B", "GANGLINE_LAUNCH_PATIENCE=5m"}
	assert.Equal(t, []string{"A=a", "B=b", "GANGLINE_CARRY=A,B", "GANGLINE_LAUNCH_PATIENCE=5m"}, commandLine{}.env(all), "but what a launcher wants to be carried")
}

func TestPatience(t *testing.T) {
	for entry, want := range map[string]time.Duration{"5m": 5 * time.Minute, "soon": time.Minute, "-1s": time.Minute, "": time.Minute} {
		assert.Equal(t, want, Patience([]string{"A=b", PatienceVariable + "=" + entry}, time.Minute), entry)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"-x h c", "-o ConnectTimeout=1h h", "-oSetEnv=A=\"b c\" h", "ssh://u@[::1]:2/ c", "-tt -- h -n", "-p"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		c, err := parse(args)
		if err == nil && c.command != "" {
			assert.True(t, strings.HasSuffix(line, c.command), "a command reaches the other side as it came")
		}
	})
}
