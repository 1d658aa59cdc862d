package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gangline/gangline/test/helm"
)

const manifestsDir = "charts/manifests"

// set is the manifests of one program, in a folder of their own.
type set struct {
	dir, namespace, values string
	// resources are applied beside what is rendered.
	resources []string
	// optional are files that are rendered and not applied with the others.
	optional []string
}

func sets() []set {
	return []set{
		{
			dir: "controller", namespace: "kubeflow-system", values: "node.enabled=false,runtimes.kubeflow=false,runtimes.hpc=false",
			resources: []string{"../../gangline/crds"},
		},
		{dir: "node", namespace: "gangline-system", values: "controller.enabled=false,node.provisioner=true", optional: []string{"provisioner.yaml"}},
	}
}

// applied are the names of the rendered files that the kustomization applies.
func (s set) applied(rendered map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(rendered)), func(name string) bool { return slices.Contains(s.optional, name) })
}

func main() {
	root := flag.String("root", ".", "directory of the repository")
	check := flag.Bool("check", false, "write nothing and fail if a file is not up to date")
	var own site
	flag.StringVar(&own.values, "values", "", "file with a site's own values, to be rendered into --out")
	flag.StringVar(&own.out, "out", "", "folder for what a site's own values make; it must be empty, or from an earlier run")
	flag.StringVar(&own.namespace, "namespace", "kubeflow-system", "namespace of what a site's own values make")
	flag.Parse()
	ctx := context.Background()
	work := func() error { return run(ctx, *root, *check) }
	if own.values != "" || own.out != "" {
		work = func() error { return own.run(ctx, *root) }
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, check bool) error {
	files := map[string]string{}
	for _, s := range sets() {
		text, err := helm.Run(ctx, "template", "gangline", filepath.Join(root, "charts", "gangline"), "--namespace", s.namespace, "--set", s.values)
		if err != nil {
			return err
		}
		rendered := split(text, filepath.Base)
		rendered["kustomization.yaml"] = kustomization(slices.Concat([]string{"namespace.yaml"}, s.resources, s.applied(rendered)))
		rendered["namespace.yaml"] = namespace(s.namespace)
		for name, text := range rendered {
			files[filepath.Join(s.dir, name)] = "# Written by make generate.\n" + text
		}
	}
	schema, err := schemaText(root)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, manifestsDir)
	if check {
		return errors.Join(compareFile(root, schemaFile, schema), compare(dir, files))
	}
	if err := os.WriteFile(filepath.Join(root, schemaFile), schema, 0o644); err != nil {
		return fmt.Errorf("writing the schema of the values: %w", err)
	}
	return write(dir, files)
}

// split is what Helm has rendered, by a name made of the template's path.
func split(text string, name func(path string) string) map[string]string {
	files := map[string]string{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		source, body, ok := strings.Cut(strings.TrimPrefix(document, "# Source: "), "\n")
		if !ok || !strings.HasPrefix(document, "# Source: ") {
			continue
		}
		file := name(source)
		if files[file] != "" {
			files[file] += "---\n"
		}
		files[file] += strings.TrimRight(body, "\n") + "\n"
	}
	return files
}

func namespace(name string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + name + "\n"
}

func kustomization(resources []string) string {
	var b strings.Builder
	b.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n")
	for _, r := range resources {
		b.WriteString("- " + r + "\n")
	}
	return b.String()
}

func write(dir string, files map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing what was rendered before: %w", err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

// compareFile fails if a file of the chart is not what it would be.
func compareFile(root, name string, want []byte) error {
	is, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || !bytes.Equal(is, want) {
		return fmt.Errorf("%s is not of the programs' types: run make generate", name)
	}
	return nil
}

// compare fails with a line for each file that is missing, differs, or is rendered
// no more.
func compare(dir string, files map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		is, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(is, []byte(files[name])) {
			errs = append(errs, fmt.Errorf("%s is not what the chart renders: run make generate", filepath.Join(manifestsDir, name)))
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if _, ok := files[name]; err == nil && !ok {
			err = fmt.Errorf("%s is rendered no more: run make generate", filepath.Join(manifestsDir, name))
		}
		errs = append(errs, err)
		return nil
	})
	return errors.Join(append(errs, err)...)
}
