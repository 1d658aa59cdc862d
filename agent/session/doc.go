// Package session runs a process for an SSH client: it connects the two by pipes
// or a pseudoterminal, and passes signals, sizes of the terminal and the client's
// end on to the process's group.
//
// It knows neither pods nor the SSH protocol: what to run is the caller's recipe,
// and what the client wants of it an sshd.Command.
package session
