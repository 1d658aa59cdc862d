package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// document is a Markdown file, taken apart.
type document struct {
	path   string // below the root
	prose  string // without code blocks
	blocks []block
}

// block is a fenced code block, or an indented one (which names no language).
type block struct {
	language string
	line     int // of its first line
	text     string
}

// documents are all Markdown files of the tree.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && notOfTheTree(path, entry) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, parse(below, string(data)))
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// notOfTheTree tells of folders that hold what was built or is tests' data.
func notOfTheTree(path string, folder fs.DirEntry) bool {
	name := folder.Name()
	return path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, name))
}

// fence begins and ends a block, which may stand in a list.
var fence = regexp.MustCompile("^( *)```([a-z]*)$")

func parse(path, text string) document {
	d := document{path: path}
	var open *block
	indent, before := "", ""
	for i, line := range strings.Split(text, "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case open != nil && mark != nil && mark[2] == "":
			d.blocks, open = append(d.blocks, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case mark != nil:
			open, indent = &block{language: mark[2], line: i + 2}, mark[1]
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(before) == "":
			d.blocks = append(d.blocks, block{line: i + 1, text: strings.TrimPrefix(line, "    ") + "\n"})
			continue // a longer one is several, of a line each
		default:
			d.prose += line + "\n"
		}
		before = line
	}
	return d
}

// codeSpan is `code` in a line of prose.
var codeSpan = regexp.MustCompile("`([^`\n]+)`")
