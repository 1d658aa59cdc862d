package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Paths in the repository.
const (
	genDir     = "controller/api/gen"
	apiDir     = "controller/api/v1alpha1"
	crdDir     = "charts/gangline/crds"
	deepCopies = apiDir + "/zz_generated.deepcopy.go"
	toolsMod   = "test/tools/go.mod"
)

func main() {
	root := flag.String("root", ".", "directory of the repository")
	check := flag.Bool("check", false, "write nothing and fail if a generated file is not up to date")
	flag.Parse()
	if err := run(context.Background(), *root, *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, check bool) error {
	tmp, err := os.MkdirTemp("", "gangline-gen.")
	if err != nil {
		return fmt.Errorf("making a directory to generate into: %w", err)
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // only copies
	files, err := generate(ctx, root, tmp)
	if err != nil {
		return err
	}
	if check {
		return compare(root, files)
	}
	return write(root, files)
}

// generate makes all generated files, by their path in the repository.
func generate(ctx context.Context, root, tmp string) (map[string][]byte, error) {
	if err := copyModule(root, tmp); err != nil {
		return nil, fmt.Errorf("copying the API package: %w", err)
	}
	if err := controllerGen(ctx, root, tmp); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	code, err := os.ReadFile(filepath.Join(tmp, deepCopies))
	if err != nil {
		return nil, fmt.Errorf("reading the deep copies: %w", err)
	}
	files[deepCopies] = code
	crds, err := crdFiles(tmp)
	if err != nil {
		return nil, err
	}
	for _, path := range crds {
		crd, err := os.ReadFile(filepath.Join(tmp, path))
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		if files[path], err = withKEPVersion(crd); err != nil {
			return nil, fmt.Errorf("adding %s to %s: %w", kepVersion, filepath.Base(path), err)
		}
	}
	return files, nil
}

// copyModule lays the API package and its module's files into tmp.
func copyModule(root, tmp string) error {
	sources, err := filepath.Glob(filepath.Join(root, apiDir, "*.go"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(tmp, apiDir), 0o755); err != nil {
		return err
	}
	copies := map[string]string{
		filepath.Join(root, genDir, "crd.mod"): filepath.Join(tmp, "go.mod"),
		filepath.Join(root, genDir, "crd.sum"): filepath.Join(tmp, "go.sum"),
	}
	for _, source := range sources {
		if filepath.Base(source) != filepath.Base(deepCopies) {
			copies[source] = filepath.Join(tmp, apiDir, filepath.Base(source))
		}
	}
	for from, to := range copies {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func controllerGen(ctx context.Context, root, dir string) error {
	tools, err := filepath.Abs(filepath.Join(root, toolsMod))
	if err != nil {
		return fmt.Errorf("finding the tools: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+tools, "controller-gen",
		"object", "crd:generateEmbeddedObjectMeta=true", "paths=./"+apiDir, "output:crd:dir="+crdDir)
	cmd.Dir = dir
	if words, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("controller-gen: %w: %s", err, words)
	}
	return nil
}

// crdFiles lists the CRDs below a directory, by their path in the repository.
func crdFiles(root string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(root, crdDir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the CRDs: %w", err)
	}
	for i, path := range found {
		found[i] = filepath.Join(crdDir, filepath.Base(path))
	}
	return found, nil
}

func write(root string, files map[string][]byte) error {
	for path, data := range files {
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

// compare fails with a line for each file in the tree that is missing, that
// differs, or that is a CRD nothing generates.
func compare(root string, files map[string][]byte) error {
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(files)) {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s cannot be read: run make generate: %w", path, err))
		} else if !bytes.Equal(got, files[path]) {
			errs = append(errs, fmt.Errorf("%s is not what the API's types say: run make generate", path))
		}
	}
	present, err := crdFiles(root)
	if err != nil {
		return err
	}
	for _, path := range present {
		if _, ok := files[path]; !ok {
			errs = append(errs, fmt.Errorf("%s is of no type in %s: remove it", path, apiDir))
		}
	}
	return errors.Join(errs...)
}
