package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const threatModel = "docs/security.md"

var (
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testSpan     = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)(?:/([^`]+))?`")
)

// TestThreatModel: each line of the threat model names the tests that hold it, and those are
// there.
func TestThreatModel(t *testing.T) {
	t.Parallel()
	tests := map[string]string{} // with the text of their files
	for path, text := range testFiles(t) {
		for _, m := range testFunction.FindAllStringSubmatch(text, -1) {
			tests[m[1]] += path + "\n" + text
		}
	}
	data, err := os.ReadFile(filepath.Join(root, threatModel))
	require.NoError(t, err)
	rows, within := 0, false
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.HasPrefix(line, "| could try to |"):
			within = true
			continue
		case !strings.HasPrefix(line, "|"):
			within = false
		}
		named := testSpan.FindAllStringSubmatch(line, -1)
		for _, m := range named {
			text, there := tests[m[1]]
			assert.True(t, there, "%s: there is no test %s", threatModel, m[1])
			assert.True(t, m[2] == "" || strings.Contains(text, `"`+m[2]+`"`), "%s: %s has no case %q", threatModel, m[1], m[2])
		}
		if within && !strings.HasPrefix(line, "|---") {
			rows++
			assert.NotEmpty(t, named, "%s: no test holds this line: %s", threatModel, line)
		}
	}
	assert.Greater(t, rows, 30)
}

// testFiles are the texts of all files of tests.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			all[path] = string(text)
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return all
}
