package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	architecture = "docs/architecture.md"
	ourModule    = "github.com/gangline/gangline/"
)

// TestImports: what the table of docs/architecture.md says that packages may import of
// ours is what they import: no more, and no less.
func TestImports(t *testing.T) {
	t.Parallel()
	layers := layersOf(t)
	used := map[string]bool{}
	for pkg, imports := range importsOfOurs(t) {
		own := layerOf(layers, pkg)
		if !assert.NotNil(t, own, "%s has no row for %s", architecture, pkg) || own.everything {
			continue
		}
		for _, imported := range imports {
			if layerOf(layers, imported) == own {
				continue
			}
			i := slices.IndexFunc(own.may, func(folder string) bool { return within(imported, folder) })
			if assert.GreaterOrEqual(t, i, 0, "%s imports %s, which its row in %s does not have", pkg, imported, architecture) {
				used[own.name+" "+own.may[i]] = true
			}
		}
	}
	for _, l := range layers {
		for _, folder := range l.may {
			assert.True(t, used[l.name+" "+folder], "%s: nothing of %s imports %s", architecture, l.name, folder)
		}
	}
}

// layer is a row of the table.
type layer struct {
	name       string // of the first folder
	folders    []string
	everything bool     // it may import all there is
	may        []string // folders
}

// layersOf reads the table.
func layersOf(t *testing.T) []*layer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, architecture))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(data), "\n| folder | holds | may import |\n")
	require.True(t, found, "the table is gone")
	var layers []*layer
	for line := range strings.Lines(table) {
		row := cells(line)
		if len(row) != 3 {
			break
		}
		if delimiter.MatchString(strings.TrimSpace(line)) {
			continue
		}
		folders, rest, err := foldersIn(row[0], ".")
		require.NoError(t, err, line)
		require.NotEmpty(t, folders, line)
		require.Empty(t, rest, line)
		l := &layer{name: folders[0], folders: folders}
		l.may, rest, err = foldersIn(row[2], path.Dir(l.name))
		require.NoError(t, err, line)
		switch rest {
		case "everything":
			l.everything = true
		case "what is below it":
			l.may = append(l.may, l.name)
		default:
			require.Contains(t, []string{"", "nothing of ours"}, rest, line)
		}
		layers = append(layers, l)
	}
	require.NotEmpty(t, layers)
	return layers
}

// foldersIn are the folders that a cell names: from the root, or beside one, as is the
// one before.
// The rest is what the cell says in words.
func foldersIn(cell, beside string) (folders []string, rest string, err error) {
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		folder := path.Clean(m[1])
		if !isFolder(folder) {
			folder = path.Join(beside, folder)
		}
		if !isFolder(folder) {
			return nil, "", fmt.Errorf("there is no folder %s", m[1])
		}
		folders = append(folders, folder)
		if strings.Contains(folder, "/") {
			beside = path.Dir(folder)
		}
	}
	return folders, strings.Trim(codeSpan.ReplaceAllString(cell, ""), ", "), nil
}

func isFolder(name string) bool {
	info, err := os.Stat(filepath.Join(root, name))
	return err == nil && info.IsDir()
}

// layerOf is the row that a package belongs to: that of the nearest folder above it. It
// is nil where there is none.
func layerOf(layers []*layer, pkg string) *layer {
	var own *layer
	longest := ""
	for _, l := range layers {
		for _, folder := range l.folders {
			if within(pkg, folder) && len(folder) > len(longest) {
				own, longest = l, folder
			}
		}
	}
	return own
}

func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// importsOfOurs are the packages of the tree, with those of the tree that each imports.
// Tests, and packages that are for tests ("sitetest"), may import what they need.
func importsOfOurs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && notOfTheTree(file, entry) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil || strings.HasSuffix(pkg, "test") {
			return err
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		imports := all[pkg]
		for _, spec := range source.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, is := strings.CutPrefix(imported, ourModule); is && !slices.Contains(imports, ours) {
				imports = append(imports, ours)
			}
		}
		all[pkg] = imports
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}
