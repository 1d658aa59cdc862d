package sshd

import (
	"regexp"
	"strings"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// maxEnv bounds, in bytes, the variables that a session may send.
const maxEnv = 256 << 10

// name is POSIX's (XBD 8.1): what a shell can hold, and so no BASH_FUNC_f%%
// either, by which bash imports code.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// setEnv takes a variable that the client sent.
//
// This is no wall: who may send a variable may also run "env X=y command". It
// keeps apart what belongs to each side. The variables refused here are set by
// the pod, or change what a program is rather than what it does, in the
// Runner's helpers too, which run before the command does.
func (n *session) setEnv(key, value string) bool {
	if n.ended != nil || !name.MatchString(key) || strings.ContainsRune(value, 0) || ofThePod(key) {
		return false
	}
	entry := key + "=" + value
	total := len(entry)
	for _, e := range n.command.Env {
		total += len(e)
	}
	if total > maxEnv {
		return false
	}
	n.command.Env = append(n.command.Env, entry)
	return true
}

func ofThePod(key string) bool {
	if device.IsVariable(key) {
		return true // the client's devices are not this pod's
	}
	if key == remoteshell.PatienceVariable || key == remoteshell.CarryVariable {
		return false // they are the client's
	}
	for _, prefix := range []string{"LD_", "GANGLINE_"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	switch key {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", // as sshd does
		"BASH_ENV", "ENV", "BASHOPTS", "SHELLOPTS", "IFS", "PS4", // shells run or obey them before the command
		"GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH": // the C library's loader
		return true
	}
	return false
}
