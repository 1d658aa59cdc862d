package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTables: the rows of a table have as many cells as its head, and none stands apart
// from it, where it would be shown as it is written.
func TestTables(t *testing.T) {
	t.Parallel()
	for _, d := range documents(t) {
		assert.Empty(t, brokenRows(d.prose), d.path)
	}
}

// delimiter is the row below a table's head.
var delimiter = regexp.MustCompile(`^\|(?:\s*:?-+:?\s*\|)+$`)

// brokenRows are those that a reader sees otherwise than they were meant.
func brokenRows(prose string) []string {
	var broken []string
	lines := strings.Split(prose, "\n")
	width := 0 // of the table that a line is in; 0 outside of one
	for i, line := range lines {
		row := strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(row, "|"):
			width = 0
		case width > 0 && len(cells(row)) != width:
			broken = append(broken, row)
		case width == 0 && i+1 < len(lines) && delimiter.MatchString(strings.TrimSpace(lines[i+1])):
			width = len(cells(row))
		case width == 0:
			broken = append(broken, row)
		}
	}
	return broken
}

// cells are those of a table's row. A bar that is meant has a backslash before it.
func cells(row string) []string {
	const bar = "\x00"
	row = strings.ReplaceAll(strings.TrimSpace(row), `\|`, bar)
	all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|")
	for i, cell := range all {
		all[i] = strings.TrimSpace(strings.ReplaceAll(cell, bar, "|"))
	}
	return all
}

func TestBrokenRows(t *testing.T) {
	t.Parallel()
	const head = "| a | b |\n|---|:-:|\n"
	for sentence, tc := range map[string]struct {
		prose string
		want  []string
	}{
		"a table":                        {head + "| 1 | 2 |\n\ntext\n", nil},
		"a bar that is meant":            {head + "| `1 \\| 2` | 3 |\n", nil},
		"a cell too many":                {head + "| 1 | 2 | 3 |\n", []string{"| 1 | 2 | 3 |"}},
		"a cell too few":                 {head + "| 1 |\n", []string{"| 1 |"}},
		"a line of dashes that is short": {"| a | b |\n|---|\n", []string{"|---|"}},
		"a row behind an empty line":     {head + "| 1 | 2 |\n\n| 3 | 4 |\n", []string{"| 3 | 4 |"}},
		"another table":                  {head + "\n| a |\n|---|\n| 1 |\n", nil},
		"a table in a list":              {"- see\n\n  | a |\n  |---|\n  | 1 |\n", nil},
	} {
		assert.Equal(t, tc.want, brokenRows(tc.prose), sentence)
	}
}
