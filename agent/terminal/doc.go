// Package terminal makes pseudoterminals (pty(7)) whose reads and writes can be
// interrupted, for sessions and for containers that ask for one.
//
// It starts nothing: who holds a terminal's other end is its caller's business.
package terminal
