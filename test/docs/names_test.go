package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const troubleshooting = "docs/troubleshooting.md"

// TestAnnotations: names of ours that documents use are names that the code reads or writes.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	source := files(t, "translate/wellknown", ".go")
	known := matches(source, `Domain \+ "/([a-z-]+)\.?"`)
	require.Contains(t, known, "partition")
	name := regexp.MustCompile(`(?:^|[^.a-z])gangline\.dev/([a-z][a-z-]*)`)
	for _, d := range documents(t) {
		text := d.prose
		for _, b := range d.blocks {
			text += b.text
		}
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			assert.True(t, known[m[1]], "%s: there is no gangline.dev/%s", d.path, m[1])
		}
	}
}

// TestReasons: the table of reasons in docs/troubleshooting.md has a row for each that the
// programs give, with its cause and its cure, and no other.
func TestReasons(t *testing.T) {
	t.Parallel()
	given := reasons(t)
	described := map[string]bool{}
	for _, row := range rows(t, "reasons") {
		require.Len(t, row, 3, row)
		for _, m := range codeSpan.FindAllStringSubmatch(row[0], -1) {
			assert.False(t, described[m[1]], "%s is there twice", m[1])
			described[m[1]] = true
		}
		assert.NotEmpty(t, row[1], row[0])
		assert.NotEmpty(t, row[2], row[0])
	}
	assert.Equal(t, sorted(given), sorted(described), "the first list is the code's, the second is that of %s", troubleshooting)
}

// TestTexts: the messages in docs/troubleshooting.md are those of the programs. What
// differs from case to case is written as an ellipsis.
func TestTexts(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, file := range parsed(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					all.WriteString(text + "\n")
				}
			}
			return true
		})
	}
	literals := all.String()
	for _, row := range rows(t, "texts") {
		for _, m := range codeSpan.FindAllStringSubmatch(row[0], -1) {
			for _, part := range strings.Split(m[1], "…") {
				assert.True(t, strings.Contains(literals, strings.TrimSpace(part)), "%s: nobody says %q", troubleshooting, m[1])
			}
		}
	}
}

// rows are the cells of a table of docs/troubleshooting.md, which stands between two comments.
func rows(t *testing.T, table string) [][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, troubleshooting))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(data), "<!-- begin: "+table+" -->")
	require.True(t, found, table)
	text, _, found := strings.Cut(rest, "<!-- end: "+table+" -->")
	require.True(t, found, table)
	var all [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") {
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	require.Greater(t, len(all), 1, table)
	return all[1:] // the first is the head
}

// parsed are the programs' sources by their paths, but for tests.
func parsed(t *testing.T) map[string]*ast.File {
	t.Helper()
	all := map[string]*ast.File{}
	for _, folder := range []string{"agent", "cmd", "controller", "mpi", "provider", "translate"} {
		for path, data := range files(t, folder, ".go") {
			if strings.Contains(path, "test/") {
				continue // doubles
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, data, 0)
			require.NoError(t, err)
			all[path] = file
		}
	}
	return all
}

// reasons are those of Events, pods, containers and TrainJobs: constants that are called
// so, and texts that follow the type of an Event.
func reasons(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for path, file := range parsed(t) {
		if workloadManager.MatchString(path) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if strings.HasPrefix(strings.ToLower(name.Name), "reason") && i < len(n.Values) {
						add(found, n.Values[i])
					}
				}
			case *ast.CallExpr:
				for i := 1; i < len(n.Args); i++ {
					if isEventType(n.Args[i-1]) {
						add(found, n.Args[i])
					}
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					kv, ok := e.(*ast.KeyValueExpr)
					if ok && isReason(nameOf(kv.Key)) {
						add(found, kv.Value)
					}
					if row, inTable := valueOf(kv, ok).(*ast.CompositeLit); inTable && beginsWithReason(n.Type) && len(row.Elts) > 0 {
						add(found, row.Elts[0])
					}
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if isReason(nameOf(left)) && len(n.Lhs) == len(n.Rhs) {
						add(found, n.Rhs[i])
					}
				}
			}
			return true
		})
	}
	maps.DeleteFunc(found, func(reason string, _ bool) bool {
		return strings.HasPrefix(reason, "Unsupported") || slices.Contains(conditions, reason)
	})
	return found
}

// workloadManager are packages whose reasons are those of jobs.
var workloadManager = regexp.MustCompile(`provider/(flux|local|slurm)/`)

// conditions are reasons of a pod's conditions, in kubelet's own words: they repeat what
// the containers say.
var conditions = []string{"ContainersNotInitialized", "ContainersNotReady", "PodSandboxNotReady", "ReadinessGatesNotReady", "RestartAllContainersStarted"}

func isReason(name string) bool {
	return slices.Contains([]string{"reason", "Reason", "ContainerReason"}, name)
}

func valueOf(kv *ast.KeyValueExpr, ok bool) ast.Expr {
	if !ok {
		return nil
	}
	return kv.Value
}

// beginsWithReason tells of the type of a table whose rows begin with a reason.
func beginsWithReason(table ast.Expr) bool {
	m, ok := table.(*ast.MapType)
	if !ok {
		return false
	}
	row, ok := m.Value.(*ast.StructType)
	return ok && len(row.Fields.List) > 0 && len(row.Fields.List[0].Names) > 0 && isReason(row.Fields.List[0].Names[0].Name)
}

// reason is how Kubernetes writes one.
var reason = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

func add(found map[string]bool, e ast.Expr) {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if text, err := strconv.Unquote(l.Value); err == nil && reason.MatchString(text) {
			found[text] = true
		}
	}
}

func isEventType(e ast.Expr) bool {
	return slices.Contains([]string{"EventTypeNormal", "EventTypeWarning"}, nameOf(e))
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
