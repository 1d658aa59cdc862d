package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// Host is this node's programs, as PATH has them.
type Host struct{}

var _ Programs = Host{}

// Find implements Programs.
func (Host) Find(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// answerTimeout bounds a program's word about its version.
const answerTimeout = 10 * time.Second

// Output implements Programs.
func (Host) Output(ctx context.Context, path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	return string(out), nil
}
