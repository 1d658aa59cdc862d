package metrics

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/golden"
)

// TestDocument keeps the table of docs/observability.md that of the code.
func TestDocument(t *testing.T) {
	const document, begin, end = "../../../docs/observability.md", "<!-- begin: gangline-node -->\n", "<!-- end: gangline-node -->\n"
	all, err := Catalogue()
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("\n| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range all {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", m.Name, m.Kind, labels, m.Help)
	}
	table.WriteString("\n")
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	before, rest, opened := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	require.True(t, opened && closed, "the markers are gone")
	got := before + begin + table.String() + end + after
	golden.Equal(t, document, got)
}
