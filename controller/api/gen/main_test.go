package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckComparesEveryFile(t *testing.T) {
	const (
		jobs     = crdDir + "/jobs.yaml"
		runtimes = crdDir + "/runtimes.yaml"
	)
	generated := map[string][]byte{jobs: []byte("jobs"), runtimes: []byte("runtimes"), deepCopies: []byte("code")}
	for name, test := range map[string]struct {
		change  func(t *testing.T, root string)
		message string
	}{
		"a tree that is up to date passes": {
			change: func(*testing.T, string) {},
		},
		"a file that was edited": {
			change:  func(t *testing.T, root string) { put(t, root, jobs, "edited") },
			message: jobs + " is not what the API's types say: run make generate",
		},
		"a file that is missing": {
			change:  func(t *testing.T, root string) { require.NoError(t, os.Remove(filepath.Join(root, deepCopies))) },
			message: deepCopies + " cannot be read: run make generate",
		},
		"a CRD of a type that is gone": {
			change:  func(t *testing.T, root string) { put(t, root, crdDir+"/old.yaml", "old") },
			message: crdDir + "/old.yaml is of no type in controller/api/v1alpha1: remove it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, write(root, generated))
			test.change(t, root)
			err := compare(root, generated)
			if test.message == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.message)
		})
	}
}

func put(t *testing.T, root, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o644))
}
