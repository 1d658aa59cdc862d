// Package sshd is the SSH service of one slot. It carries everything
// interactive: mpirun's and other launchers' remote starts, kubectl exec and
// cp, port-forward.
//
// The service knows the protocol and nothing of pods: a Runner runs the
// commands. It never runs a program, reads no file, and lets in whoever has one of
// the keys that it is given, under any user name: processes belong to the user
// that the agent runs as, whatever a client calls itself.
//
// It follows RFC 4252 and 4254 and OpenSSH's PROTOCOL file. Forwarding reaches
// the node's loopback and the gang's hosts only; there is no password, no agent or
// X11 forwarding and no remote port. Subsystems are the Runner's.
package sshd
