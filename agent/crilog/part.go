package crilog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// suffix ends the names of all parts.
const suffix = ".log"

// FileName is the name of a part of a run's log.
func FileName(run, part int) string {
	if part == 0 {
		return strconv.Itoa(run) + suffix
	}
	return strconv.Itoa(run) + "." + strconv.Itoa(part) + suffix
}

// parseName is FileName's inverse.
func parseName(name string) (run, part int, ok bool) {
	name, ok = strings.CutSuffix(name, suffix)
	if !ok {
		return 0, 0, false
	}
	first, rest, parted := strings.Cut(name, ".")
	run, err := strconv.Atoi(first)
	if err == nil && parted {
		part, err = strconv.Atoi(rest)
	}
	return run, part, err == nil && FileName(run, part) == name+suffix
}

// Runs lists the runs that have a log in a container's directory, in ascending
// order.
func Runs(ctx context.Context, dir Dir) ([]int, error) {
	names, err := namesIn(ctx, dir)
	var runs []int
	for _, name := range names {
		if run, _, ok := parseName(name); ok {
			runs = append(runs, run)
		}
	}
	slices.Sort(runs)
	return slices.Compact(runs), err
}

func namesIn(ctx context.Context, dir Dir) ([]string, error) {
	names, err := dir.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for logs: %w", err)
	}
	return names, nil
}

// parts lists a run's parts, in ascending order.
func parts(names []string, run int) []int {
	var list []int
	for _, name := range names {
		if r, part, ok := parseName(name); ok && r == run {
			list = append(list, part)
		}
	}
	slices.Sort(list)
	return list
}

// Prune removes the logs of the runs before one from a container's directory.
func Prune(dir string, first int) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if run, _, ok := parseName(e.Name()); ok && run < first {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("removing old logs: %w", err)
	}
	return nil
}
