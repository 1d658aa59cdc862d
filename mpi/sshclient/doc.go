// Package sshclient is the client's side of a slot's SSH service: one
// connection with a pinned host key, commands on it and ports through it. The
// remote shell and the virtual node use it alike.
//
// It looks nothing up, reads no configuration of the user's (no ~/.ssh, no
// known_hosts) and never falls back to another key or method.
//
// It follows RFC 4254 (the SSH connection protocol) and OpenSSH's PROTOCOL file
// for keepalive@openssh.com.
package sshclient
