package session

import (
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sftpserver"
)

// SFTP is the subsystem that Complete knows.
const SFTP = "sftp"

// Complete gives a recipe the program that the client asks for. An argument vector
// is run where the recipe says; all else begins in the user's home directory, as a
// login does, where the recipe names no other.
func Complete(r *sandbox.Recipe, c sshd.Command, home string) {
	switch {
	case len(c.Argv) > 0:
		r.Argv = c.Argv
		return
	case c.Subsystem == SFTP:
		r.Path, r.Argv = sandbox.Self, []string{sftpserver.Name}
	case c.Line != "":
		r.Path, r.Argv = "/bin/sh", []string{"sh", "-c", c.Line}
	default:
		r.LoginShell = true
	}
	if r.Dir == "" && home != "" {
		// What is there is known where the process starts: it may be in an image.
		r.Dir, r.DirMustExist, r.DirElse = home, true, "/"
	}
}
