package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release is what is to be made.
type release struct {
	root, out     string
	version       string // "v0.1.0", or "v0.1.0-3-g1234567" behind it
	revision      string
	time          time.Time // of the commit, and so of all files
	architectures []string
	programs      []program
	quick         bool
	dynamic       bool
}

// semantic is a semantic version with a v, of letters that a registry's tag may have.
var semantic = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// describe asks git for what was not said.
func (r *release) describe(ctx context.Context) error {
	var err error
	if r.revision, err = r.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	seconds, err := r.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("reading the commit's time: %w", err)
	}
	r.time = time.Unix(n, 0).UTC()
	if r.version == "" {
		r.version, err = r.git(ctx, "describe", "--tags", "--match=v[0-9]*", "--dirty")
		if err != nil { // there is no tag yet
			short, err := r.git(ctx, "describe", "--always", "--exclude=*", "--dirty")
			if err != nil {
				return err
			}
			r.version = "v0.0.0-g" + short
		}
	}
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("%q is no version like v1.2.3", r.version)
	}
	return nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	out, err := command(ctx, r.root, nil, "git", args...)
	return strings.TrimSpace(out), err
}

// make makes everything.
func (r *release) make(ctx context.Context) error {
	if err := r.empty(); err != nil {
		return err
	}
	for _, architecture := range r.architectures {
		if err := r.makeFor(ctx, architecture); err != nil {
			return err
		}
	}
	if err := r.chart(ctx); err != nil {
		return err
	}
	if err := r.images(); err != nil {
		return err
	}
	return checksums(r.out)
}

// mark is the file that says that a directory is ours to empty.
const mark = "SHA256SUMS"

func (r *release) empty() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking into %s: %w", r.out, err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(r.out, mark)); err != nil {
			return fmt.Errorf("%s holds files of somebody else: give another --out, or remove them", r.out)
		}
		if err := os.RemoveAll(r.out); err != nil {
			return fmt.Errorf("removing what was made before: %w", err)
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("making the directory to write to: %w", err)
	}
	// From now on, also if this run fails.
	return os.WriteFile(filepath.Join(r.out, mark), nil, 0o644)
}

// binary is where a built program is.
func (r *release) binary(program, architecture string) string {
	return filepath.Join(r.out, "bin", "linux-"+architecture, program)
}

// makeFor builds the programs of one architecture and packs them.
func (r *release) makeFor(ctx context.Context, architecture string) error {
	var names []string
	for _, p := range r.programs {
		if err := r.build(ctx, p, architecture, p.name, false); err != nil {
			return err
		}
		names = append(names, p.name)
		if p.dynamic && r.dynamic && architecture == runtime.GOARCH {
			if err := r.build(ctx, p, architecture, p.name+"-dynamic", true); err != nil {
				return err
			}
			names = append(names, p.name+"-dynamic")
		}
	}
	for _, name := range names {
		if err := r.bill(ctx, name, architecture); err != nil {
			return err
		}
	}
	return r.archive(names, architecture)
}

func (r *release) build(ctx context.Context, p program, architecture, name string, cgo bool) error {
	fmt.Printf("building %s for linux/%s\n", name, architecture)
	args := []string{"build", "-buildvcs=false", "-ldflags=-s -w -X main.version=" + r.version, "-o", r.binary(name, architecture)}
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	env := []string{"GOOS=linux", "GOARCH=" + architecture, "CGO_ENABLED=" + enabled}
	if !r.quick { // the same whoever builds it
		env, args = append(env, "GOFLAGS="), append(args, "-trimpath")
	}
	_, err := command(ctx, r.root, env, "go", append(args, p.path)...)
	return err
}

// bill writes the bill of materials of a program, from what the Go linker has put
// into it.
func (r *release) bill(ctx context.Context, name, architecture string) error {
	file := filepath.Join(r.out, fmt.Sprintf("%s-%s-linux-%s.cdx.json", name, r.version, architecture))
	_, err := command(ctx, filepath.Join(r.root, "build"), nil, "go", "tool", "cyclonedx-gomod",
		"bin", "-json", "-std", "-noserial", "-notimestamp", "-version", r.version, "-output", file, r.binary(name, architecture))
	return err
}

// chart packs the Helm chart, of this version and for these images.
func (r *release) chart(ctx context.Context) error {
	_, err := command(ctx, filepath.Join(r.root, "test", "helm"), nil, "go", "run", "helm.sh/helm/v4/cmd/helm",
		"package", filepath.Join(r.root, "charts", "gangline"), "--destination", r.out,
		"--version", strings.TrimPrefix(r.version, "v"), "--app-version", r.version)
	return err
}

// command runs a program and returns what it prints. Its error carries its words.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(words.String()))
	}
	return out.String(), nil
}
