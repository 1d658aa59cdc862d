package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gangline/gangline/test/simulator"
	"github.com/gangline/gangline/test/soak"
)

// The goals: KWOK's own bar for a pod's creation until it is reported as Running, and
// ours.
const (
	goalRate    = 167.0 // pods/s
	goalRestart = 30 * time.Second
	goalRSS     = 500.0 // MB
)

// report is the table.
type report struct {
	title string
	rows  []row
}

// row is one figure, with its goal if it has one.
type row struct{ what, figure, goal, met string }

func newReport(s settings) *report {
	gangs := "each its own gang"
	if s.gangs > 0 {
		gangs = fmt.Sprintf("in %d gangs of %d", s.gangs, s.pods/s.gangs)
	}
	return &report{title: fmt.Sprintf("%d pods on one virtual node, %s, seed %d; %d processors, %s", s.pods, gangs, s.seed, runtime.NumCPU(), load())}
}

// load says how busy the machine was before.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return "load " + first + " before"
}

func (r *report) add(what, format string, args ...any) {
	r.rows = append(r.rows, row{what: what, figure: fmt.Sprintf(format, args...)})
}

// aim sets the last row's goal.
func (r *report) aim(goal string, met bool) {
	last := &r.rows[len(r.rows)-1]
	last.goal, last.met = goal, map[bool]string{true: "yes", false: "no"}[met]
}

func (r *report) print(to io.Writer) error {
	if len(r.rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n\n", r.title)
	fmt.Fprintln(w, "what\tfigure\tgoal\tmet")
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", row.what, row.figure, row.goal, row.met)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return nil
}

// rampFigures are what a ramp has measured.
type rampFigures struct {
	latencies     *watched
	creation      time.Duration // of all pods
	before, after gauges
	peak          float64 // bytes
}

func (r *report) ramp(b batch, how string, f rampFigures) {
	if how != "" {
		how = " (" + how + ")"
	}
	each, first, last := f.latencies.latencies(b)
	took := last.Sub(first).Seconds()
	rate := float64(len(each)) / took
	r.add("created → Running reported"+how, "%.0f pods/s (%d in %.1f s)", rate, len(each), took)
	r.aim(fmt.Sprintf("≥ %.0f", goalRate), rate >= goalRate)
	r.add("  the creations alone, meanwhile", "%.0f pods/s", float64(b.pods)/f.creation.Seconds())
	r.add("  of one pod, p50 / p99", "%s / %s", seconds(quantile(each, .5)), seconds(quantile(each, .99)))
	writes := difference(f.before, f.after)
	sum := 0.0
	for what, n := range writes {
		if strings.HasPrefix(what, "pods") {
			sum += n
		}
	}
	r.add("  writes of each pod's status", "%.2f", sum/float64(b.pods))
	r.aim("≤ 4", sum <= 4*float64(b.pods))
	r.add("  Events of each pod", "%.2f", (writes["events create"]+writes["events patch"])/float64(b.pods))
	r.add("  the node's CPU time for each pod", "%.1f ms", (f.after.cpu-f.before.cpu)*1000/float64(b.pods))
	r.add("  the API server's, which others cause too", "%.1f ms", (f.after.server-f.before.server)*1000/float64(b.pods))
	r.add("  the node's memory (RSS) at the most", "%.0f MB", f.peak/1e6)
	r.aim(fmt.Sprintf("≤ %.0f", goalRSS), f.peak/1e6 <= goalRSS)
}

func (r *report) steady(before, after gauges, asked, answered simulator.Stats, growth []soak.Series) {
	took := after.at.Sub(before.at).Seconds()
	wrote := 0.0
	for _, n := range difference(before, after) {
		wrote += n
	}
	r.add("steady state: writes to the API server", "%.0f in %.0f s", wrote, took)
	r.aim("0", wrote == 0)
	r.add("  queries of the workload manager", "%.1f/s", float64(answered.Lists-asked.Lists)/took)
	r.add("  the node's CPU", "%.0f %% of a core", (after.cpu-before.cpu)/took*100)
	r.add("  the node's memory (RSS), before and after", "%.0f → %.0f MB", before.rss/1e6, after.rss/1e6)
	r.aim(fmt.Sprintf("≤ %.0f", goalRSS), after.rss/1e6 <= goalRSS)
	r.add("  goroutines, before and after", "%.0f → %.0f", before.gorts, after.gorts)
	for _, s := range growth {
		r.add("  growth in the second half, "+s.Name, "%+.1f %s", s.Growth(), s.Unit)
		r.aim(fmt.Sprintf("≤ %.0f %% + %.0f", s.Share*100, s.Slack), s.Flat())
	}
}

func (r *report) restart(ready, control time.Duration, ended int, after gauges, peak float64) {
	r.add("restart: the Node is Ready", "%s", seconds(ready))
	r.add(fmt.Sprintf("  %d pods that ended meanwhile are told, a new one runs", ended), "%s", seconds(control))
	r.aim("≤ "+seconds(goalRestart), control <= goalRestart)
	r.add("  the node's memory (RSS) at the most, and after it", "%.0f MB, %.0f MB", peak/1e6, after.rss/1e6)
	r.aim(fmt.Sprintf("≤ %.0f", goalRSS), max(peak, after.rss)/1e6 <= goalRSS)
}

func (r *report) storm(v verdict, took time.Duration) {
	r.add("storm: pods that ended by themselves", "%d of %d in %s", v.own, v.batch.pods, seconds(took))
	for _, harm := range slices.Sorted(maps.Keys(v.harms)) {
		r.add("  harm to a job: "+string(harm), "%d", v.harms[harm])
	}
	for _, reason := range slices.Sorted(maps.Keys(v.harmed)) {
		r.add("  ended by harm: "+reason, "%d", v.harmed[reason])
	}
	r.add("  kills of the node", "%d", len(v.kills))
	r.add("  jobs; of these second ones after a lost answer", "%d; %d", v.stats.Submitted, v.twins)
	r.add("  rules that were broken", "%d", len(v.violations))
	r.aim("0", len(v.violations) == 0)
}

func (r *report) cleared(b batch, pods int, took time.Duration) {
	if pods > 1 {
		r.add("deletion → gone, "+b.name, "%.0f pods/s (%d in %.1f s)", float64(pods)/took.Seconds(), pods, took.Seconds())
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// quantile is of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(q*float64(len(sorted))), len(sorted)-1)
	return sorted[at]
}
