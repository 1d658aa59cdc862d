package tool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Runner runs a program to its end, and kills it when the context ends. in and out are its
// standard input and output, and stay the caller's to close; in may be nil for nothing to
// read, out for what is only said in the error if the program fails, as its complaints are.
type Runner func(ctx context.Context, argv []string, in, out *os.File) error

// Patience is how long a tool's output is read on after its end, where something that it
// has left still holds it.
const Patience = 5 * time.Second

var _ Runner = Exec

// Exec is the Runner of a process that does not wait for its children otherwise.
func Exec(ctx context.Context, argv []string, in, out *os.File) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	said := &LastWords{}
	cmd.Stdout, cmd.Stderr = said, said
	if in != nil {
		cmd.Stdin = in
	}
	if out != nil {
		cmd.Stdout = out
	}
	cmd.WaitDelay = Patience
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, said)
	}
	return nil
}

// mostWords bounds what is kept of a tool's output, in bytes.
const mostWords = 400

// LastWords keeps the end of what is written: a tool's complaint.
type LastWords struct{ text string }

func (w *LastWords) Write(p []byte) (int, error) {
	w.text += string(p)
	w.text = w.text[max(0, len(w.text)-mostWords):]
	return len(p), nil
}

// String is the text, without half a character at its beginning.
func (w *LastWords) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(w.text, ""))
}
