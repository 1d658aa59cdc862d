package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
)

// ASCII's own separators: squeue passes them on, and no name that this product
// gives has them. A job's name is its user's and may hold anything else, line
// ends included; so it comes last.
const (
	recordSeparator = "\x1e"
	fieldSeparator  = "\x1f"
)

// squeueFormat gives a record per job: id, state, user's name and number, nodes, times
// of submission, start and end, reason, name. Source: squeue(1), --format.
const squeueFormat = recordSeparator + "%i" + fieldSeparator + "%T" + fieldSeparator + "%u" + fieldSeparator + "%U" + fieldSeparator + "%N" +
	fieldSeparator + "%V" + fieldSeparator + "%S" + fieldSeparator + "%e" + fieldSeparator + "%r" + fieldSeparator + "%j"

// owner tells whether a job of a user's is to be in a list, and the user's name.
type owner func(uid int, told string) (name string, counts bool, err error)

// parseJobs reads squeue's output. The components of a heterogeneous job are one
// job under their leader's id.
func parseJobs(out string, of owner) ([]wlm.Job, error) {
	records := strings.Split(out, recordSeparator)
	if strings.TrimSpace(records[0]) != "" {
		return nil, fmt.Errorf("reading squeue's list: it starts with %q", records[0])
	}
	components := make([]slurm.Component, 0, len(records)-1)
	for _, record := range records[1:] {
		c, counts, err := parseRecord(record, of)
		if err != nil {
			return nil, fmt.Errorf("reading squeue's list: %w", err)
		}
		if counts {
			components = append(components, c)
		}
	}
	return slurm.Fold(components), nil
}

func parseRecord(record string, of owner) (_ slurm.Component, counts bool, err error) {
	const fields = 10
	f := strings.SplitN(strings.TrimSuffix(record, "\n"), fieldSeparator, fields)
	if len(f) != fields {
		return slurm.Component{}, false, fmt.Errorf("%q has %d fields, not %d", record, len(f), fields)
	}
	user, counts, err := userOf(f[3], f[2], of)
	if err != nil || !counts {
		return slurm.Component{}, false, err
	}
	id, offset, err := parseComponentID(f[0])
	if err != nil {
		return slurm.Component{}, false, err
	}
	c := slurm.NewComponent(id, offset, slurm.StateOf(f[1]), f[8], f[4], parseTime(f[6]), parseTime(f[7]))
	c.User, c.Submitted, c.Name = user, parseTime(f[5]), f[9]
	return c, true, nil
}

func userOf(number, told string, of owner) (name string, counts bool, err error) {
	uid, err := strconv.Atoi(number)
	if err != nil {
		return "", false, fmt.Errorf("%q is no user's number", number)
	}
	return of(uid, told)
}

// parseComponentID reads "12", "12+1" for a component of a heterogeneous job, and
// "12_3" for a task of an array.
func parseComponentID(text string) (id string, offset int, err error) {
	id, component, heterogeneous := strings.Cut(text, "+")
	if heterogeneous {
		if offset, err = strconv.Atoi(component); err != nil {
			return "", 0, fmt.Errorf("%q is no job id", text)
		}
	}
	if first, _, _ := strings.Cut(id, "_"); !isNumber(first) {
		return "", 0, fmt.Errorf("%q is no job id", text)
	}
	return id, offset, nil
}

// timeFormat is that of Slurm's times, in SLURM_TIME_FORMAT as in arguments.
const timeFormat = "2006-01-02T15:04:05"

// parseTime is zero for "N/A", "NONE", "Unknown" and the like.
func parseTime(s string) time.Time {
	t, err := time.Parse(timeFormat, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
