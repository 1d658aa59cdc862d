package dashboard

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	dashboardFile = "../../charts/gangline/dashboards/gangline.json"
	documentFile  = "../../docs/observability.md"
)

// board is what matters here of a Grafana dashboard.
type board struct {
	UID      string  `json:"uid"`
	Panels   []panel `json:"panels"`
	Template struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
	Grid struct{ H, W, X, Y int } `json:"gridPos"`
}

func read(t *testing.T) board {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	require.NoError(t, err)
	var b board
	require.NoError(t, json.Unmarshal(data, &b))
	return b
}

// listed are the document's metrics with their labels. Those of histograms are what
// Prometheus makes of them.
func listed(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	all := map[string][]string{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		name, kind := m[1], m[2]
		var names []string
		for label := range strings.SplitSeq(m[3], ",") {
			if label = strings.Trim(label, "` "); label != "" {
				names = append(names, label)
			}
		}
		if kind != "histogram" {
			all[name] = append(all[name], names...) // both programs have gangline_build_info
			continue
		}
		all[name+"_bucket"] = append(names, labels.BucketLabel)
		all[name+"_count"], all[name+"_sum"] = names, names
	}
	require.NotEmpty(t, all)
	return all
}

// targetLabels are those that Prometheus gives to all that it scrapes, and the one that
// tells the virtual nodes of a process apart.
var targetLabels = []string{"instance", "job", "node"}

func TestEveryQueryNamesMetricsThatThereAre(t *testing.T) {
	known := listed(t)
	asked := map[string]bool{}
	for _, p := range read(t).Panels {
		for _, target := range p.Targets {
			t.Run(p.Title+" "+target.LegendFormat, func(t *testing.T) {
				shown := check(t, target.Expr, known, asked)
				for _, m := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					assert.Contains(t, shown, m[1], "the legend's label is not in the answer")
				}
			})
		}
	}
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")
		ours := strings.HasPrefix(name, "gangline_")
		shown := asked[base] || asked[base+"_bucket"] || asked[base+"_count"] || asked[name]
		assert.True(t, shown || !ours, "no panel shows %s", name)
	}
}

// check parses a query and returns the labels that its answer may have.
func check(t *testing.T, query string, known map[string][]string, asked map[string]bool) []string {
	t.Helper()
	query = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".+").Replace(query)
	assert.NotContains(t, query, "$", "a variable that Grafana does not know")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, query)
	have := map[string]bool{}
	var kept []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			names, there := known[n.Name]
			assert.True(t, there, "there is no metric %s", n.Name)
			asked[n.Name] = true
			all := slices.Concat(names, targetLabels)
			for _, m := range n.LabelMatchers {
				assert.True(t, m.Name == model.MetricNameLabel || slices.Contains(all, m.Name), "%s has no label %s", n.Name, m.Name)
			}
			for _, name := range all {
				have[name] = true
			}
		case *parser.AggregateExpr:
			kept = append(kept, n.Grouping...)
		}
		return nil
	})
	for _, name := range kept {
		assert.True(t, have[name], "nothing in the query has the label %s", name)
	}
	if kept != nil {
		return kept
	}
	return slices.Collect(maps.Keys(have))
}

func TestTheDashboardCanBeLoaded(t *testing.T) {
	b := read(t)
	assert.Equal(t, "gangline", b.UID, "links to it stay")
	ids, titles, cells := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	row := ""
	for _, p := range b.Panels {
		assert.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		if p.Type == "row" {
			row = p.Title
		}
		assert.False(t, titles[row+"/"+p.Title], "two panels are called %s", p.Title)
		titles[row+"/"+p.Title] = true
		for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
			for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
				assert.Empty(t, cells[[2]int{x, y}], "%s lies over another panel", p.Title)
				cells[[2]int{x, y}] = p.Title
			}
		}
		assert.LessOrEqual(t, p.Grid.X+p.Grid.W, 24, p.Title)
	}
	for _, v := range b.Template.List {
		if v.Type == "query" {
			assert.Contains(t, string(v.Query), "label_values(gangline_build_info, "+v.Name+")")
		}
	}
}
