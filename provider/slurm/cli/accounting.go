package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
)

var _ wlm.Historian = (*Manager)(nil)

// sacctFields are sacct's columns; the job's name comes last, for it may hold anything.
// Its text is used because its JSON has the exit codes wrong in Slurm 22.05.
const sacctFields = "JobID,State,User,UID,NodeList,Submit,Start,End,ExitCode,JobName"

// sacctSlack is how much the clocks of this host and of Slurm's may differ.
const sacctSlack = time.Hour

// maxSacctNames bounds a query: one argument takes 128 KiB (execve(2)).
const maxSacctNames = 1000

// Ended implements wlm.Historian by sacct, which needs slurmdbd.
func (m *Manager) Ended(ctx context.Context, jobs []wlm.JobRef) (map[string]wlm.Job, error) {
	ended := map[string]wlm.Job{}
	for some := range slices.Chunk(jobs, maxSacctNames) {
		if err := m.endedOf(ctx, some, ended); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

func (m *Manager) endedOf(ctx context.Context, jobs []wlm.JobRef, ended map[string]wlm.Job) error {
	at, err := m.session(ctx, "")
	if err != nil {
		return err
	}
	if at.tools["sacct"] == "" {
		return fmt.Errorf("asking for ended jobs: sacct is not installed: %w", errors.ErrUnsupported)
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Name
	}
	earliest := slices.MinFunc(jobs, func(a, b wlm.JobRef) int { return a.Submitted.Compare(b.Submitted) }).Submitted
	uids := m.users(at)
	a := m.aboutJobsOf(ctx, at, uids, call{tool: "sacct", env: at.utcEnv(), args: []string{
		"--noheader", "--parsable2", "--allocations", "--duplicates", "--allusers",
		"--name=" + strings.Join(names, ","),
		"--starttime=" + earliest.Add(-sacctSlack).UTC().Format(timeFormat), "--delimiter=" + fieldSeparator,
		"--format=" + sacctFields,
	}})
	if a.err != nil {
		if strings.Contains(a.stderr, "accounting storage is disabled") {
			return fmt.Errorf("asking for ended jobs: %w: %w", a.err, errors.ErrUnsupported)
		}
		return a.err
	}
	who := reader{of: m.among(uids), name: func(uid int) string { return m.nameOf(ctx, at, uid) }}
	return who.collectEnded(a.stdout, jobs, ended)
}

// nameOf is a user's name, whoever it is; empty if it is not known.
func (m *Manager) nameOf(ctx context.Context, at *session, uid int) string {
	name := m.owners.Name(uid, "")
	if name != "" || at.tools["getent"] == "" {
		return name
	}
	a := m.run(ctx, at, call{tool: "getent", env: at.env, args: []string{"passwd", strconv.Itoa(uid)}})
	if name, _, found := strings.Cut(a.stdout, ":"); a.err == nil && found {
		m.owners.Learn(uid, name)
		return name
	}
	return ""
}

// reader reads sacct's output.
type reader struct {
	of owner
	// name is the name of any user, or empty.
	name func(uid int) string
}

// collectEnded picks the jobs that were asked for and have ended from sacct's output.
func (r reader) collectEnded(out string, refs []wlm.JobRef, ended map[string]wlm.Job) error {
	jobs, err := r.parseHistory(out)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		for _, j := range jobs {
			same := j.Name == ref.Name && (ref.ID == "" || j.ID == ref.ID)
			if known, ok := ended[ref.Name]; same && j.Phase == wlm.PhaseEnded && (!ok || j.Submitted.After(known.Submitted)) {
				ended[ref.Name] = j
			}
		}
	}
	return nil
}

// parseHistory reads sacct's output, a line per component of a job. A job that was
// requeued has several records under one id; they stay apart
// by when they were submitted, as do jobs of which a Slurm that lost its state gave two the
// same id.
func (r reader) parseHistory(out string) ([]wlm.Job, error) {
	var order []string
	records := map[string][]slurm.Component{}
	for line := range strings.Lines(out) {
		c, counts, err := r.parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("reading sacct's list: %w", err)
		}
		if !counts {
			continue
		}
		key := c.ID + " " + c.Submitted.String() + " " + c.Name
		if records[key] == nil {
			order = append(order, key)
		}
		records[key] = append(records[key], c)
	}
	var jobs []wlm.Job
	for _, key := range order {
		jobs = append(jobs, slurm.Fold(records[key])...)
	}
	return jobs, nil
}

func (r reader) parseLine(line string) (_ slurm.Component, counts bool, err error) {
	const fields = 10
	f := strings.SplitN(line, fieldSeparator, fields)
	if len(f) != fields {
		return slurm.Component{}, false, fmt.Errorf("%q has %d fields, not %d", line, len(f), fields)
	}
	id, offset, err := parseComponentID(f[0])
	if err != nil {
		return slurm.Component{}, false, err
	}
	user, counts, err := userOf(f[3], f[2], r.of)
	if err != nil || !counts {
		return slurm.Component{}, false, err
	}
	word, by, _ := strings.Cut(f[1], " ") // "CANCELLED by 1001"
	nodes := f[4]
	if nodes == "None assigned" {
		nodes = ""
	}
	c := slurm.NewComponent(id, offset, slurm.StateOf(word), "", nodes, parseTime(f[6]), parseTime(f[7]))
	c.User, c.Submitted, c.Name = user, parseTime(f[5]), f[9]
	c.Reason = cmp.Or(r.canceller(by), exitReason(f[8]))
	return c, true, nil
}

// canceller names who cancelled a job, of whom sacct tells the uid.
func (r reader) canceller(by string) string {
	number, found := strings.CutPrefix(by, "by ")
	if !found {
		return ""
	}
	if uid, err := strconv.Atoi(number); err == nil {
		if name := r.name(uid); name != "" {
			return "by " + name
		}
	}
	return "by uid " + number
}

// exitReason puts sacct's "exit code:signal" in words.
func exitReason(exit string) string {
	code, signal, _ := strings.Cut(exit, ":")
	switch {
	case signal != "" && signal != "0":
		return "signal " + signal
	case code != "" && code != "0":
		return "exit code " + code
	}
	return ""
}
