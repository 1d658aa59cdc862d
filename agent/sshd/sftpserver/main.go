package sftpserver

import (
	"errors"
	"fmt"
	"io"

	"github.com/pkg/sftp"
)

// Name is the program's name (argv[0]).
const Name = "sftp-server"

// Main serves until the client ends the session and returns the exit status.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := Serve(stdin, stdout); err != nil {
		fmt.Fprintln(stderr, Name+":", err)
		return 1
	}
	return 0
}

// Serve serves one session until its input ends. Relative paths start in the
// working directory. (The library can start them elsewhere, but then makes the
// targets of symbolic links absolute.)
func Serve(in io.Reader, out io.Writer) error {
	server, err := sftp.NewServer(stream{in, out})
	if err != nil {
		return fmt.Errorf("starting an SFTP session: %w", err)
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving SFTP: %w", err)
	}
	return nil
}

// stream joins the two directions. Whose they are closes them.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }
