package slurm_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

const document = "../../docs/slurm.md"

// TestDocument keeps the tables of docs/slurm.md those of the code.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	got := string(data)
	for name, table := range map[string]string{"job states": statesTable(), "reasons": reasonsTable()} {
		begin, end := "<!-- begin: "+name+" -->\n", "<!-- end: "+name+" -->\n"
		before, rest, found := strings.Cut(got, begin)
		require.True(t, found, begin)
		_, after, found := strings.Cut(rest, end)
		require.True(t, found, end)
		got = before + begin + table + end + after
	}
	golden.Equal(t, document, got)
}

func statesTable() string {
	var b strings.Builder
	b.WriteString("\n| Slurm | what it means | the job | pod | reason | containers | condition | Event |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range slurm.States() {
		pod := podOf(s)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, s.Meaning, strings.TrimSpace(string(s.Phase)+" "+string(s.Outcome)), strings.Join(pod[:], " | "))
	}
	return b.String() + "\n"
}

// podOf is a pod's phase, reason, containers, condition and Event.
func podOf(s slurm.State) [5]string {
	switch s.Phase {
	case wlm.PhaseQueued:
		return [5]string{"Pending", wellknown.ReasonQueued, "waiting", "", ""}
	case wlm.PhaseStarting:
		return [5]string{"Pending", wellknown.ReasonStarting, "waiting", "", ""}
	case wlm.PhaseRunning:
		return [5]string{"what its agent reports", "", "", "", ""}
	case wlm.PhaseEnding:
		return [5]string{"what its agent reports, until the job has ended", "", "", "", ""}
	case wlm.PhaseEnded:
		e := translate.AllocationEnding(spool.Ended{Outcome: string(s.Outcome)})
		condition, event := "", "Warning "+e.Reason
		if e.Disruption {
			condition = "DisruptionTarget"
		}
		if e.Reason == wellknown.ReasonDeadline {
			event = "Normal " + e.Reason
		}
		return [5]string{"Failed", e.Reason, fmt.Sprintf("%s, exit code %d", e.ContainerReason, e.ExitCode), condition, event}
	default:
		return [5]string{"nothing changes", "", "", "", ""}
	}
}

func reasonsTable() string {
	var b strings.Builder
	b.WriteString("\n| Slurm's reason | words |\n|---|---|\n")
	for _, r := range slurm.Reasons() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Pattern, r.Meaning)
	}
	return b.String() + "\n"
}
