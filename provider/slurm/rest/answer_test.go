package rest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/test/golden"
)

// bodies are the names of the recorded and the written bodies, see testdata/README.md.
func bodies() []string {
	return []string{"v0.0.38", "v0.0.39-from-documents", "v0.0.41-from-documents", "v0.0.45-from-documents"}
}

func readTestdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

func TestAListReadsTheSameInAllVersions(t *testing.T) {
	for _, version := range bodies() {
		t.Run(version, func(t *testing.T) {
			var a jobsAnswer
			require.NoError(t, readAnswer(200, readTestdata(t, "jobs-"+version+".json"), &a))
			var b strings.Builder
			jobs, err := jobsOf(a.Jobs, whose{name: "hpcuser", owners: &slurm.Owners{}})
			require.NoError(t, err)
			for _, j := range jobs {
				fmt.Fprintf(&b, "%s %q of %s: %s %s\n    %s (%s: %s) on %s\n", j.ID, j.Name, j.User, j.Phase, j.Outcome, j.State,
					j.Reason, j.Explanation, cmp.Or(j.Nodes, "nothing"))
				fmt.Fprintf(&b, "    submitted %s, expected %s, started %s, ended %s\n",
					clock(j.Submitted), clock(j.ExpectedStart), clock(j.Started), clock(j.Ended))
			}
			golden.Equal(t, "testdata/jobs-"+version+".golden", b.String())
		})
	}
}

func clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format("2006-01-02 15:04:05")
}

func TestAnInventoryReadsTheSameInAllVersions(t *testing.T) {
	for _, version := range bodies() {
		t.Run(version, func(t *testing.T) {
			var nodes nodesAnswer
			var partitions partitionsAnswer
			require.NoError(t, readAnswer(200, readTestdata(t, "nodes-"+version+".json"), &nodes))
			require.NoError(t, readAnswer(200, readTestdata(t, "partitions-"+version+".json"), &partitions))
			var b strings.Builder
			for _, p := range inventoryOf(nodes.Nodes, partitions.Partitions).Partitions {
				fmt.Fprintf(&b, "%s default=%v\n", p.Name, p.Default)
				for _, n := range p.Nodes {
					fmt.Fprintf(&b, "    %s: %d CPUs, %d MiB, %d GPUs, %s, usable=%v\n", n.Name, n.CPUs, n.MemoryMiB, n.GPUs, n.State, n.Usable)
				}
			}
			golden.Equal(t, "testdata/inventory-"+version+".golden", b.String())
		})
	}
}

func TestNumbersAndWordsInAllTheirShapes(t *testing.T) {
	for text, want := range map[string]number{
		`5`: {5, true}, `0`: {0, true}, `null`: {}, `{"set":true,"infinite":false,"number":7}`: {7, true},
		`{"set":false,"infinite":false,"number":0}`: {}, `{"set":true,"infinite":true,"number":0}`: {}, `{}`: {},
	} {
		var got number
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{`"many"`, `[1]`, `{"set":true,"number":"x"}`, `{"set":true}`} {
		assert.Error(t, json.Unmarshal([]byte(text), new(number)), text)
	}
	for text, want := range map[string]list{`"UP"`: {"UP"}, `["A","B"]`: {"A", "B"}, `[]`: {}, `null`: nil} {
		var got list
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		assert.Equal(t, want, got, text)
	}
	assert.Error(t, json.Unmarshal([]byte(`7`), new(list)))
}
