package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// files are all files below a folder with an ending, but those of tests.
func files(t *testing.T, folder, ending string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ending) || strings.HasSuffix(path, "_test.go") {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all, folder)
	return all
}

// matches are the first groups of a pattern in the files.
func matches(files map[string][]byte, pattern string) map[string]bool {
	found := map[string]bool{}
	for _, data := range files {
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(data, -1) {
			found[string(m[1])] = true
		}
	}
	return found
}

var (
	shells   = map[string]bool{"": true, "sh": true, "bash": true, "console": true}
	makeCall = regexp.MustCompile(`(?:^|[;&|(] *)make ((?:[a-z][a-z0-9-]*|[A-Z]+=\S*)(?: +(?:[a-z][a-z0-9-]*|[A-Z]+=\S*))*)`)
	ourCall  = regexp.MustCompile(`(?:^|[\s/])(gangline-(?:node|agent|controller)|kubectl[ -]gangline) ([a-z][a-z-]+)`)
	ourPath  = regexp.MustCompile(`(?:^|[\s=])((?:charts|examples|test|docs|cmd|provider|controller|translate|agent|mpi|flux|plugin|build)/[A-Za-z0-9_.*/-]+)`)
)

// TestCommands: targets of make, subcommands of our programs and files of the tree that
// documents name in code are there.
func TestCommands(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	targets := matches(map[string][]byte{"Makefile": makefile}, `(?m)^([a-z0-9-]+):`)
	const use = `Use:\s*"([a-z][a-z-]*)`
	programs := map[string]map[string]bool{
		"gangline-node":       matches(files(t, "cmd/gangline-node", ".go"), use),
		"gangline-agent":      matches(files(t, "cmd/gangline-agent", ".go"), use),
		"gangline-controller": matches(files(t, "cmd/gangline-controller", ".go"), use),
		"kubectl-gangline":    matches(files(t, "plugin", ".go"), use),
	}
	for _, d := range documents(t) {
		for _, code := range commands(d) {
			for _, m := range makeCall.FindAllStringSubmatch(code, -1) {
				for _, target := range strings.Fields(m[1]) {
					assert.True(t, targets[target] || strings.Contains(target, "="), "%s: make %s", d.path, target)
				}
			}
			for _, m := range ourCall.FindAllStringSubmatch(code, -1) {
				known := programs[strings.ReplaceAll(m[1], " ", "-")]
				assert.True(t, known[m[2]] || cobras[m[2]], "%s: %s has no command %q", d.path, m[1], m[2])
			}
			for _, m := range ourPath.FindAllStringSubmatch(code, -1) {
				path := strings.TrimRight(m[1], ".")
				found, err := filepath.Glob(filepath.Join(root, path))
				assert.True(t, err == nil && len(found) > 0, "%s: there is no %s", d.path, path)
			}
		}
	}
}

// cobras are the commands that every program has by its library, and the words that
// follow a program's name in prose.
var cobras = map[string]bool{"completion": true, "help": true}

// commands are the lines of shell blocks, with continued ones joined, and what stands
// in code in a line of prose.
func commands(d document) []string {
	var lines []string
	for _, b := range d.blocks {
		if shells[b.language] {
			lines = append(lines, strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")...)
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(d.prose, -1) {
		lines = append(lines, m[1])
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "$ ")
	}
	return lines
}

// TestShellSyntax: a shell can read what it is told to run.
func TestShellSyntax(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if b.language != "sh" && b.language != "bash" {
				continue
			}
			check := exec.CommandContext(t.Context(), "bash", "-n")
			check.Stdin = strings.NewReader(b.text)
			out, err := check.CombinedOutput()
			assert.NoError(t, err, "%s:%d: %s", d.path, b.line, out)
		}
	}
}
