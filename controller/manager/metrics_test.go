package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/test/golden"
)

func trainJobThat(name string, conditions ...string) *v1alpha1.TrainJob {
	tj := &v1alpha1.TrainJob{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	for _, c := range conditions {
		tj.Status.Conditions = append(tj.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
	}
	return tj
}

func TestTrainJobsAreCountedByState(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	all := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		trainJobThat("a"), trainJobThat("b"), trainJobThat("c", v1alpha1.TrainJobComplete), trainJobThat("d", v1alpha1.TrainJobSuspended),
		trainJobThat("e", v1alpha1.TrainJobSuspended, v1alpha1.TrainJobFailed),
	).Build()
	c := newCollector("v1", all)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gangline_trainjobs TrainJobs by state: active, suspended, complete, failed. Each replica tells of all.
# TYPE gangline_trainjobs gauge
gangline_trainjobs{state="active"} 2
gangline_trainjobs{state="complete"} 1
gangline_trainjobs{state="failed"} 1
gangline_trainjobs{state="suspended"} 1
`), "gangline_trainjobs"))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestTrainJobsThatAreNotKnownYetAreLeftOut(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	silent := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("the cache is not complete")
		},
	})
	assert.Equal(t, 1, testutil.CollectAndCount(newCollector("v1", silent)), "the version")
}

// TestDocument keeps the table of docs/observability.md that of the code.
func TestDocument(t *testing.T) {
	const document, begin, end = "../../docs/observability.md", "<!-- begin: gangline-controller -->\n", "<!-- end: gangline-controller -->\n"
	var table strings.Builder
	table.WriteString("\n| metric | kind | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range Metrics() {
		fmt.Fprintf(&table, "| `%s` | %s | `%s` | %s |\n", m.Name, m.Kind, strings.Join(m.Labels, "`, `"), m.Help)
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
