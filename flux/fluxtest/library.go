package fluxtest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed libflux/libflux.c
var source []byte

// Library compiles the double of libflux-core into a directory, with cc and the flags
// that are given beside its own, and returns its path, for flux.Options.
func Library(dir string, flags ...string) (string, error) {
	from, to := filepath.Join(dir, "libflux.c"), filepath.Join(dir, "libflux-core.so.2")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", fmt.Errorf("writing the double of libflux-core: %w", err)
	}
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", to, from}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the double of libflux-core: %w: %s", err, out)
	}
	return to, nil
}
