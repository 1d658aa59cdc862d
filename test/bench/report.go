package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all figures of a run.
type report struct {
	Time    time.Time `json:"time"`
	Machine machine   `json:"machine"`
	Figures []figure  `json:"figures"`
}

type machine struct {
	CPUs   int    `json:"cpus"`
	Model  string `json:"model"`
	Kernel string `json:"kernel"`
}

// figure is one line of the table: what was measured in each round, of the bare tool, of
// ours, or of both in turn.
type figure struct {
	Measurement string `json:"measurement"`
	What        string `json:"what"`
	Unit        string `json:"unit"`
	// Time and Machine are of an earlier run than the report's; empty for the report's own.
	Time    time.Time `json:"time,omitzero"`
	Machine machine   `json:"machine,omitzero"`
	// Bare is empty where there is nothing to compare with.
	Bare []float64 `json:"bare,omitempty"`
	Ours []float64 `json:"ours"`
	// Ratio is ours by the bare one's, round by round.
	Ratio []float64 `json:"ratio,omitempty"`
	Goal  *goal     `json:"goal,omitempty"`
}

// goal is what a figure should be. It is told and never enforced: a time depends on the
// machine, and on what else it does.
type goal struct {
	// Of is what it limits: "ratio" or "ours".
	Of string `json:"of"`
	// Least and Most are the limits of the median; Most is the one if Least is 0.
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
}

func ratioAtMost(most float64) *goal   { return &goal{Of: "ratio", Most: most} }
func ratioAtLeast(least float64) *goal { return &goal{Of: "ratio", Least: least} }
func atMost(most float64) *goal        { return &goal{Of: "ours", Most: most} }

func (g goal) String() string {
	text, limit := "≤ ", g.Most
	if g.Least != 0 {
		text, limit = "≥ ", g.Least
	}
	text += short(limit)
	if g.Of == "ratio" {
		text += "×"
	}
	return text
}

// reached tells whether a figure is what it should be.
func (f figure) reached() bool {
	values := f.Ours
	if f.Goal.Of == "ratio" {
		values = f.Ratio
	}
	m := median(values)
	switch {
	case len(values) == 0:
		return false // nothing was measured
	case f.Goal.Least != 0:
		return m >= f.Goal.Least
	}
	return m <= f.Goal.Most
}

// add takes a round's figure, of the bare tool and ours.
func (f *figure) add(bare, ours float64) {
	f.Bare, f.Ours, f.Ratio = append(f.Bare, bare), append(f.Ours, ours), append(f.Ratio, ours/bare)
}

func newReport() *report {
	return &report{Time: time.Now().UTC().Truncate(time.Second), Machine: thisMachine()}
}

func thisMachine() machine {
	m := machine{CPUs: runtime.NumCPU()}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.Model = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// add takes figures of a measurement.
func (r *report) add(measurement string, figures ...figure) {
	for _, f := range figures {
		f.Measurement = measurement
		r.Figures = append(r.Figures, f)
	}
}

// print writes the table. A figure is the median of its rounds, with the lowest and the
// highest behind it where there are several.
func (r *report) print(w io.Writer) error {
	if len(r.Figures) == 0 {
		return nil
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tbare\tours\tunit\tratio\tgoal\t") //nolint:errcheck // Flush tells
	last := ""
	for _, f := range r.Figures {
		if f.Measurement != last {
			fmt.Fprintf(table, "%s\t\t\t\t\t\t\n", f.Measurement) //nolint:errcheck // Flush tells
			last = f.Measurement
		}
		wish := ""
		if f.Goal != nil {
			wish = f.Goal.String() + map[bool]string{true: "  reached", false: "  missed"}[f.reached()]
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t\n", f.What, spread(f.Bare), spread(f.Ours), f.Unit, spread(f.Ratio), wish) //nolint:errcheck // Flush tells
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// kind is the measurement's name: the first word, without what it was measured with.
func (f figure) kind() string {
	kind, _, _ := strings.Cut(f.Measurement, ",")
	kind, _, _ = strings.Cut(kind, " ")
	return kind
}

// merge adds the figures of an earlier report, where this one has none of that kind.
func (r *report) merge(earlier report) {
	mine := map[string]bool{}
	for _, f := range r.Figures {
		mine[f.kind()] = true
	}
	for _, f := range earlier.Figures {
		if !mine[f.kind()] {
			if f.Time.IsZero() {
				f.Time, f.Machine = earlier.Time, earlier.Machine
			}
			r.Figures = append(r.Figures, f)
		}
	}
}

// earlierFigures reads what is kept of earlier runs, and makes sure that there can be more.
func earlierFigures(path string) (earlier report, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return earlier, fmt.Errorf("making room for the figures: %w", err)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return earlier, nil
	}
	if err != nil {
		return earlier, fmt.Errorf("reading the figures: %w", err)
	}
	if err := json.Unmarshal(text, &earlier); err != nil {
		return earlier, fmt.Errorf("reading the figures of %s, to which new ones are to be added: %w", path, err)
	}
	return earlier, nil
}

// save writes the figures as JSON, whole or not at all. Those of the file that are not
// measured anew stay, with their time.
func (r *report) save(path string) error {
	if len(r.Figures) == 0 {
		return nil
	}
	earlier, err := earlierFigures(path)
	if err != nil {
		return err
	}
	all := *r
	all.Figures = slices.Clone(r.Figures)
	all.merge(earlier)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return os.Rename(path+".new", path)
}

// spread is "median (lowest–highest)".
func spread(values []float64) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return short(values[0])
	}
	return fmt.Sprintf("%s (%s–%s)", short(median(values)), short(slices.Min(values)), short(slices.Max(values)))
}

// short has three digits that say something.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	text := fmt.Sprintf("%.2f", v)
	if v < 0.1 {
		text = fmt.Sprintf("%.3f", v)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the value below which that part of the values is, between the two nearest.
func quantile(values []float64, part float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	at := part * float64(len(v)-1)
	low := int(at)
	high := min(low+1, len(v)-1)
	return v[low] + (v[high]-v[low])*(at-float64(low))
}
