package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/test/harness"
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

func TestWhatCannotBeMeasuredIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds, pods int
		err          string
	}{
		"no round":               {0, 1000, "--rounds must be at least 1, not 0"},
		"no pod":                 {5, 0, "--pods must be at least 1, not 0"},
		"fewer pods than nobody": {5, -4, "--pods must be at least 1, not -4"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			b.rounds, b.most = tc.rounds, tc.pods
			assert.EqualError(t, b.run(t.Context(), nil), tc.err)
		})
	}
}

func TestARunThatIsInterruptedSaysNoMore(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var order string
	failing := measurement{name: "failing", measure: func(*bench, context.Context) error { order += "f"; return errors.New("failed") }}
	long := measurement{name: "long", measure: func(*bench, context.Context) error {
		order += "l"
		interrupt()
		return errors.New("kubectl: signal: killed")
	}}
	err := newBench().measure(ctx, []measurement{failing, long, failing})
	require.ErrorIs(t, err, harness.ErrInterrupted)
	require.EqualError(t, err, "measuring failing: failed\ninterrupted", "what failed before is told")
	assert.Equal(t, "fl", order, "nothing more is measured")
	assert.Equal(t, 130, harness.ExitCode(err))
}

func TestPicturesAreOfTheFileThatWasAskedFor(t *testing.T) {
	b := newBench()
	b.root = t.TempDir()
	plot := filepath.Join(b.root, "test", "plot")
	require.NoError(t, os.MkdirAll(plot, 0o755))
	const program = `package main
import "os"
func main() { if err := os.WriteFile(os.Args[1]+".svg", nil, 0o600); err != nil { panic(err) } }
`
	require.NoError(t, os.WriteFile(filepath.Join(plot, "go.mod"), []byte("module plot\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(plot, "main.go"), []byte(program), 0o600))
	t.Chdir(t.TempDir())
	require.NoError(t, b.draw(t.Context(), "mine.json"))
	assert.FileExists(t, "mine.json.svg")
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	require.ErrorIs(t, b.draw(ctx, "mine.json"), harness.ErrInterrupted)
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
	none := figure{Goal: atMost(0), Ours: []float64{0, 0, 3}}
	assert.True(t, none.reached())
	none.Ours = []float64{0, 3, 3}
	assert.False(t, none.reached(), "none is a goal too")
	assert.Equal(t, "≤ 0", atMost(0).String())
	assert.False(t, figure{Goal: atMost(2)}.reached(), "nothing was measured")
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

func TestFiguresOfOtherRunsStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	first, second := &report{Time: time.Unix(100, 0).UTC(), Machine: machine{CPUs: 2}}, &report{Time: time.Unix(200, 0).UTC(), Machine: machine{CPUs: 64}}
	first.add("start", figure{What: "a gang starts", Ours: []float64{1}})
	first.add("load, 20 running pods in gangs of 10", figure{What: "memory", Ours: []float64{1}})
	first.add("flux 0.77, submissions", figure{What: "Submit", Ours: []float64{1}})
	require.NoError(t, first.save(path))
	second.add("load, 0 running pods", figure{What: "memory", Ours: []float64{2}})
	second.add("flux test, submissions", figure{What: "Submit", Ours: []float64{2}})
	require.NoError(t, second.save(path))
	assert.Len(t, second.Figures, 2, "the table is of this run")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var both report
	require.NoError(t, json.Unmarshal(text, &both))
	require.Len(t, both.Figures, 3, "what was measured anew is not there twice")
	assert.Equal(t, "a gang starts", both.Figures[2].What)
	assert.Equal(t, first.Time, both.Figures[2].Time)
	assert.Equal(t, first.Machine, both.Figures[2].Machine, "it was measured on the first machine")
	assert.Zero(t, both.Figures[0].Time)
	assert.Zero(t, both.Figures[0].Machine)
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.ErrorContains(t, second.save(path), "to which new ones are to be added")
}

func TestWhatAWindowUsed(t *testing.T) {
	at := time.Unix(100, 0)
	before := moment{at: at, rpcs: 10, processes: map[int]usage{1: {rss: 60}, 2: {name: "gangline-agent"}}}
	after := moment{at: at.Add(time.Minute), rpcs: 71, writes: 3, processes: map[int]usage{
		1: {rss: 64, anonymous: 20, cpu: 6 * time.Second}, 2: {name: "gangline-agent", rss: 20, own: 8, cpu: 3 * time.Second},
	}}
	c, err := between(before, after, 1, true)
	require.NoError(t, err)
	assert.Equal(t, cost{rpcs: 60, writes: 3, nodeRSS: 64, nodeOwn: 20, nodeCPU: 10, agents: 1, agentRSS: 20, agentOwn: 8, agentCPU: 5}, c)
	_, err = between(before, after, 7, true)
	require.ErrorContains(t, err, "the process 7 of gangline-node is not there")
	delete(before.processes, 2)
	_, err = between(before, after, 1, true)
	require.ErrorContains(t, err, "no agent runs")
	_, err = between(before, after, 1, false)
	require.NoError(t, err)
}

func TestLoadHasGoals(t *testing.T) {
	idle := loadFigures(0, []cost{{rpcs: 60}, {rpcs: 62}}, nil)
	assert.Equal(t, []float64{60, 62}, idle[0].Ours, "a round is a window")
	assert.Nil(t, idle[0].Goal)
	busy := loadFigures(100, []cost{{rpcs: 70, writes: 1, nodeRSS: 79}}, idle[0].Ours)
	assert.False(t, busy[0].reached(), "they are to be as many as without a pod")
	assert.False(t, busy[1].reached(), "nothing is to be written")
	assert.True(t, busy[2].reached())
}

func TestWritesByKind(t *testing.T) {
	k := madePerPod(map[string]float64{"pods": 1}, map[string]float64{"pods": 3, "pods/status": 4, "events": 8, "serviceaccounts/token": 2, "podgroups": 2}, 2)
	assert.Equal(t, kinds{pods: 3, events: 4, others: 2}, k)
}

func TestALogThatIsNotThereHasNoRate(t *testing.T) {
	_, err := readRate(0, 0.1)
	require.ErrorContains(t, err, "kubectl logs printed 0 bytes")
	rate, err := readRate(20e6, 2)
	require.NoError(t, err)
	assert.InDelta(t, 10, rate, 0)
}

func TestAPodThatFailsNeverStarts(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{corev1.PodPending: false, corev1.PodRunning: true, corev1.PodSucceeded: true} {
		yes, err := started(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}})
		require.NoError(t, err)
		assert.Equal(t, want, yes, phase)
	}
	_, err := started(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeFailure"}})
	require.ErrorContains(t, err, "NodeFailure")
}

func TestProcFiles(t *testing.T) {
	cpu, err := cpuTime([]byte("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20"))
	require.NoError(t, err)
	assert.Equal(t, 2*time.Second, cpu)
	_, err = cpuTime([]byte("12 (a) S 1"))
	assert.ErrorContains(t, err, "too few fields")
	rss, own, anonymous, err := memoryOf("00400000-7fff [rollup]\nRss:  2048 kB\nPrivate_Clean: 512 kB\nPrivate_Dirty: 512 kB\nAnonymous: 256 kB\n")
	require.NoError(t, err)
	assert.InDelta(t, 2, rss, 0)
	assert.InDelta(t, 1, own, 0)
	assert.InDelta(t, 0.25, anonymous, 0)
	mine, err := processes("/")
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
