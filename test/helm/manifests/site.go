package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gangline/gangline/test/helm"
)

// site is a rendering of a site's own values.
type site struct{ values, out, namespace string }

// mark is the first line of each file that is written: a folder with others is left alone.
const mark = "# Rendered from charts/gangline.\n"

// run writes a kustomization, and beside it the CRDs, which must be there before objects of
// theirs can be applied. It prints the commands that apply them, and, on standard error, what
// there is to do then.
func (s site) run(ctx context.Context, root string) error {
	if s.values == "" || s.out == "" {
		return errors.New("--values FILE and --out DIR go together")
	}
	chart := filepath.Join(root, "charts", "gangline")
	text, err := helm.Run(ctx, "template", "gangline", chart, "--namespace", s.namespace, "--values", s.values)
	if err != nil {
		return errors.New(plain(err.Error()))
	}
	notes, err := s.notes(ctx, chart)
	if err != nil {
		return err
	}
	files := split(text, flatName)
	files["kustomization.yaml"] = kustomization(append([]string{"namespace.yaml"}, slices.Sorted(maps.Keys(files))...))
	files["namespace.yaml"] = namespace(s.namespace)
	crds, err := filepath.Glob(filepath.Join(chart, "crds", "*.yaml"))
	if err != nil {
		return fmt.Errorf("looking for the CRDs: %w", err)
	}
	for _, crd := range crds {
		text, err := os.ReadFile(crd)
		if err != nil {
			return fmt.Errorf("reading a CRD: %w", err)
		}
		files[filepath.Join("crds", filepath.Base(crd))] = string(text)
	}
	if err := s.claim(); err != nil {
		return err
	}
	for name, text := range files {
		files[name] = mark + text
	}
	if err := write(s.out, files); err != nil {
		return err
	}
	fmt.Printf(`kubectl apply --server-side -f %[1]s/crds
kubectl wait --for=condition=Established --timeout=1m -f %[1]s/crds
kubectl apply --server-side -k %[1]s
`, s.out)
	fmt.Fprintln(os.Stderr, "\n"+notes)
	return nil
}

// notes are what Helm says after an installation, but for what is about Helm itself.
func (s site) notes(ctx context.Context, chart string) (string, error) {
	text, err := helm.Run(ctx, "install", "gangline", chart, "--namespace", s.namespace, "--values", s.values, "--dry-run=client")
	if err != nil {
		return "", fmt.Errorf("rendering the notes: %s", plain(err.Error()))
	}
	_, notes, ok := strings.Cut(text, "\nNOTES:\n")
	if !ok {
		return "", errors.New("rendering the notes: Helm has printed none")
	}
	notes, _, _ = strings.Cut(notes, "\nHelm neither upgrades CRDs")
	return strings.TrimSpace(notes), nil
}

// noise is what in Helm's errors says nothing to whoever has no Helm: what it was doing, where
// in a template a word was spoken, and which branch of a schema it was in.
var noise = regexp.MustCompile(`(?m)^helm \w+: (execution error at \([^)]*\): )?|^.*(Use --debug flag|'(allOf|anyOf|oneOf|if|then|else)' failed).*\n?`)

// plain is an error of Helm's without its noise.
func plain(text string) string { return strings.TrimSpace(noise.ReplaceAllString(text, "")) }

// flatName is a template's place in the chart as a file's name: controller-rbac.yaml.
func flatName(path string) string {
	_, inside, _ := strings.Cut(path, "/templates/")
	return strings.ReplaceAll(inside, "/", "-")
}

// claim makes sure that the folder is one that may be written anew.
func (s site) claim() error {
	entries, err := os.ReadDir(s.out)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(s.out, "kustomization.yaml")) // empty if it is not ours
	if !strings.HasPrefix(string(text), mark) {
		return fmt.Errorf("--out: %s has other files in it: name a new folder", s.out)
	}
	return nil
}
