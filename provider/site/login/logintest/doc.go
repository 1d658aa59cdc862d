// Package logintest runs a login node for tests: OpenSSH's own sshd on a port of this
// machine, with keys of its own, and a wire to it that can be cut.
package logintest
