package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/gangline/gangline/agent/image/lease"
)

// converter is how a form is made of a tree.
type converter struct {
	// programs are names of the same program: the first that is there is used.
	programs []string
	args     func(tree, dst string) []string
	// missing is the cure where there is none.
	missing string
}

var converters = map[Form]converter{
	FormSquashfs: {
		programs: []string{"mksquashfs"},
		// All files are root's in the image, as they were in its layers, and not the puller's.
		args: func(tree, dst string) []string {
			return []string{tree, dst, "-comp", "gzip", "-Xcompression-level", "3", "-all-root", "-no-xattrs", "-noappend", "-no-progress"}
		},
		missing: "install squashfs-tools on the compute nodes",
	},
	FormSIF: {
		programs: []string{"apptainer", "singularity"},
		args:     func(tree, dst string) []string { return []string{"--quiet", "build", "--force", dst, tree} },
		missing:  "install Apptainer on the compute nodes, or have its module loaded before the agent starts",
	},
}

// convert makes a form of a tree, and returns its size.
func (s *Store) convert(ctx context.Context, held *lease.Lease, m making, tree, dst string) (int64, error) {
	form := m.request.Form
	held.Note("converting to " + string(form))
	m.tell.converting(form)
	if err := os.RemoveAll(dst); err != nil {
		return 0, err
	}
	c := converters[form]
	program, err := c.program(s.options.Converters[form], exec.LookPath)
	if err == nil {
		err = s.options.Run(ctx, append([]string{program}, c.args(tree, dst)...), nil, nil)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return 0, cause
		}
		return 0, fmt.Errorf("converting the image to %s: %w", form, err)
	}
	info, err := os.Stat(dst)
	if err != nil {
		return 0, fmt.Errorf("converting the image to %s: %w", form, err)
	}
	mode := os.FileMode(0o644)
	if s.shared {
		mode = 0o664
	}
	return info.Size(), os.Chmod(dst, mode)
}

// program is the file that is run: the site's, or the first of the usual that is there.
func (c converter) program(site string, look func(string) (string, error)) (string, error) {
	if site != "" {
		return site, nil
	}
	var failures []error
	for _, name := range c.programs {
		path, err := look(name)
		if err == nil {
			return path, nil
		}
		failures = append(failures, err)
	}
	return "", fmt.Errorf("%w: %s", errors.Join(failures...), c.missing)
}
