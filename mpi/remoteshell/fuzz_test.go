package remoteshell

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A command line of ssh's: behind the host comes the command, as it was written.
func FuzzParseLine(f *testing.F) {
	for _, line := range []string{
		"-x host orted -mca a b", "-tt -p22 u@host", "-o ConnectTimeout=5 host -- ls -l", "-oSetEnv=A=1 h x", "ssh://u@h:22/ ls", "--", "-", "-V", "-W h:1 x", "-o x",
		"h -t ls", "-oSetEnv=\"\" h", "-E f h", "-J j h c", "ssh://[::1]:22 c", "u@a@h c",
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		c, err := parse(args)
		if err != nil {
			return
		}
		if c.command != "" {
			ends := false
			for i := range args {
				ends = ends || strings.Join(args[i:], " ") == c.command
			}
			assert.True(t, ends, "the command is the last words: %q", c.command)
		}
		assert.GreaterOrEqual(t, int64(c.timeout), int64(0))
		for _, entry := range c.env([]string{"A=1", CarryVariable + "=B,C", "B=2"}) {
			assert.NotEmpty(t, entry)
		}
	})
}

func FuzzConfigure(f *testing.F) {
	for _, option := range []string{"ConnectTimeout=1h30m", "ConnectTimeout 99999999999", "SetEnv A=\"1 2\" B=3", "SetEnv \"", "SendEnv [", "RequestTTY=force", "ProxyCommand=x", "=", "", "x= "} {
		f.Add(option)
	}
	f.Fuzz(func(t *testing.T, option string) {
		var c commandLine
		if c.configure(option) == nil {
			assert.GreaterOrEqual(t, int64(c.timeout), int64(0))
			_ = c.env([]string{"A=1"})
		}
	})
}
