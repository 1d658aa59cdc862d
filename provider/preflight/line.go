package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gangline/gangline/agent/doctor"
)

// Line is one finding and what it is about.
type Line struct {
	// Where is "this machine", "API server", "user ada" or an HPC node's name.
	Where string `json:"where"`
	doctor.Finding
}

// Report is all that was found.
type Report struct {
	Lines []Line `json:"lines"`
}

// Failed tells whether pods could not run.
func (r Report) Failed() bool { return r.count(doctor.Fail) > 0 }

func (r Report) count(s doctor.Status) int {
	n := 0
	for _, l := range r.Lines {
		if l.Status == s {
			n++
		}
	}
	return n
}

// Text writes the report for people: a line each, with the cure below what needs one.
func (r Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "%-4s  %s, %s: %s\n", l.Status, plain(l.Where), l.Check, plain(l.Message))
		if l.Cure != "" {
			fmt.Fprintf(&b, "      cure: %s\n", plain(l.Cure))
		}
	}
	fmt.Fprintf(&b, "%d ok, %d for information, %d warnings, %d failures\n",
		r.count(doctor.OK), r.count(doctor.Info), r.count(doctor.Warn), r.count(doctor.Fail))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

// plain keeps what came from elsewhere on one line, and from steering a terminal.
func plain(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
}

// JSON writes the report for programs.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

func good(where, check string, status doctor.Status, format string, args ...any) Line {
	return Line{where, doctor.Good(check, status, format, args...)}
}

func bad(where, check string, status doctor.Status, cure, format string, args ...any) Line {
	return Line{where, doctor.Bad(check, status, cure, format, args...)}
}
