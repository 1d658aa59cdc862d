package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		only, want []string
		err        string
	}{
		"one":                           {[]string{"launch"}, []string{"launch"}, ""},
		"several, in the list's order":  {[]string{"trainjobs", "start"}, []string{"start", "trainjobs"}, ""},
		"what is not there is an error": {[]string{"start", "speed"}, nil, "--only speed is not known; there are start, completion, exec, logs, mpi, launch, trainjobs, load, flux"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(tc.only)
			if tc.err != "" {
				assert.EqualError(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			var got []string
			for _, m := range chosen {
				got = append(got, m.name)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestMedian(t *testing.T) {
	assert.InDelta(t, 2, median([]float64{1, 2, 9}), 0)
	assert.InDelta(t, 2.5, median([]float64{1, 2, 3, 9}), 0)
}

func TestQuantile(t *testing.T) {
	values := []float64{4, 1, 3, 2, 5}
	assert.InDelta(t, 1, quantile(values, 0), 0)
	assert.InDelta(t, 5, quantile(values, 1), 0)
	assert.InDelta(t, 4.96, quantile(values, 0.99), 1e-9)
	assert.Equal(t, []float64{4, 1, 3, 2, 5}, values, "the values keep their order")
	assert.Zero(t, quantile(nil, 0.5))
}

func TestGoals(t *testing.T) {
	f := figure{Goal: ratioAtMost(2)}
	f.add(1, 1.5)
	f.add(1, 9)
	f.add(2, 3)
	assert.True(t, f.reached(), "the median counts")
	f.Goal = ratioAtLeast(1.6)
	assert.False(t, f.reached())
	f.Goal = atMost(3)
	assert.True(t, f.reached())
	assert.Equal(t, "≤ 1.25×", ratioAtMost(1.25).String())
	assert.Equal(t, "≥ 0.98×", ratioAtLeast(0.98).String())
	assert.Equal(t, "≤ 80", atMost(80).String())
}

func TestTheReportIsATableAndJSON(t *testing.T) {
	r := &report{}
	start := figure{What: "a gang starts", Unit: "s", Goal: ratioAtMost(2)}
	start.add(0.5, 0.75)
	start.add(0.5, 1)
	r.add("start", start)
	r.add("load", figure{What: "memory", Unit: "MiB", Ours: []float64{123.4}, Goal: atMost(80)})
	var out bytes.Buffer
	require.NoError(t, r.print(&out))
	assert.Equal(t, `                 bare           ours           unit  ratio         goal
start
  a gang starts  0.5 (0.5–0.5)  0.88 (0.75–1)  s     1.75 (1.5–2)  ≤ 2×  reached
load
  memory                        123            MiB                 ≤ 80  missed
`, out.String())
	path := filepath.Join(t.TempDir(), "new", "figures.json")
	require.NoError(t, r.save(path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var back report
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, r, &back)
}

func TestProcFiles(t *testing.T) {
	cpu, err := cpuTime([]byte("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20"))
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, cpu)
	_, err = cpuTime([]byte("12 (a) S 1"))
	assert.ErrorContains(t, err, "too few fields")
	rss, own, err := memoryOf("00400000-7fff [rollup]\nRss:  2048 kB\nPrivate_Clean: 512 kB\nPrivate_Dirty: 512 kB\n")
	require.NoError(t, err)
	assert.InDelta(t, 2, rss, 0)
	assert.InDelta(t, 1, own, 0)
	mine, err := processes()
	require.NoError(t, err)
	assert.NotContains(t, mine, os.Getpid(), "a test is no program of Gangline's")
}

func TestRPCsOfAUser(t *testing.T) {
	sdiag := "Remote Procedure Call statistics by user\n\troot            (       0) count:77     ave_time:100    total_time:7\n\thpcuser         (    2000) count:12     ave_time:1\n"
	n, err := rpcsOf(sdiag, "hpcuser")
	require.NoError(t, err)
	assert.InDelta(t, 12, n, 0)
	_, err = rpcsOf(sdiag, "other")
	assert.EqualError(t, err, "sdiag tells of no RPC of other")
}

func TestSumBy(t *testing.T) {
	text := "# TYPE writes counter\nwrites{resource=\"pods\",code=\"200\"} 2\nwrites{resource=\"pods\",code=\"409\"} 1\nwrites{resource=\"events\",code=\"201\"} 4\n"
	sums, err := sumBy(text, "writes", "resource")
	require.NoError(t, err)
	assert.Equal(t, map[string]float64{"pods": 3, "events": 4}, sums)
	_, err = sumBy("{", "writes", "resource")
	assert.ErrorContains(t, err, "reading metrics")
}

func TestPrintRate(t *testing.T) {
	rate, err := printRate("took 1000000000\n")
	require.NoError(t, err)
	assert.InDelta(t, logMB, rate, 1e-9)
	_, err = printRate("Killed")
	assert.ErrorContains(t, err, "but with: Killed")
}

func TestParseFigures(t *testing.T) {
	text := "a warning of mpirun\n"
	for i, f := range figures {
		text += fmt.Sprintf("%s %d.5\n", f.name, i+1)
	}
	got, err := parseFigures(text)
	require.NoError(t, err)
	assert.InDelta(t, 1.5, got["latency-within"], 0)
	_, err = parseFigures("latency-within 3\n")
	assert.ErrorContains(t, err, "did not print bandwidth-within but: latency-within 3")
}

func TestInTurn(t *testing.T) {
	var order string
	bare := func() (int, error) { order += "b"; return 1, nil }
	ours := func() (int, error) { order += "o"; return 2, nil }
	for round := range 2 {
		one, other, err := inTurn(round, bare, ours)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, []int{one, other})
	}
	assert.Equal(t, "boob", order)
	_, _, err := inTurn(0, func() (int, error) { return 0, errors.New("failed") }, ours)
	assert.EqualError(t, err, "failed")
	assert.Equal(t, "boob", order, "the other is not tried")
}
