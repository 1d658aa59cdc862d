package checker

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Script is a program for a pod's shell that writes its beginning and its end into a file,
// as ReadNotes reads them. In between it runs body in the background; it ends with code, or
// with onTerm when it is asked to end (below 0: it does not catch that). The environment
// must have the pod's UID, its namespace and its host name in the variables of Variables.
func Script(file, body string, code, onTerm int) string {
	trap := ""
	if onTerm >= 0 {
		trap = fmt.Sprintf("trap 'end %d' TERM; ", onTerm)
	}
	return fmt.Sprintf(`end() { echo "ended $%[1]s - $$ $1 $(date +%%s.%%N)" >> %[4]s; exit $1; }
echo "began $%[1]s $%[2]s/$%[3]s $$ 0 $(date +%%s.%%N)" >> %[4]s
%[5]s%[6]s & wait $!
end %[7]d`, UIDVariable, NamespaceVariable, "HOSTNAME", file, trap, body, code)
}

// The variables that a Script needs besides HOSTNAME.
const (
	UIDVariable       = "CHECK_UID"
	NamespaceVariable = "CHECK_NAMESPACE"
)

// ReadNotes reads what Scripts wrote: "began" or "ended", the pod's UID, its slot, the
// process, an exit code and the time. Each beginning is a Process. An end may have no time,
// where SIGTERM ended date but not the shell: then it is that of the line before it.
func ReadNotes(r io.Reader) (processes []Process, err error) {
	at := map[string]int{} // the last process of a pod and number
	last := ""
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		word := strings.Fields(lines.Text())
		if len(word) == 5 && word[0] == "ended" && last != "" {
			word = append(word, last)
		}
		if len(word) != 6 {
			return nil, fmt.Errorf("reading the notes: %q has not six words", lines.Text())
		}
		pid, err := strconv.Atoi(word[3])
		if err != nil {
			return nil, fmt.Errorf("reading the notes: %q: %w", lines.Text(), err)
		}
		code, err := strconv.Atoi(word[4])
		if err != nil {
			return nil, fmt.Errorf("reading the notes: %q: %w", lines.Text(), err)
		}
		when, err := unixTime(word[5])
		if err != nil {
			return nil, fmt.Errorf("reading the notes: %q: %w", lines.Text(), err)
		}
		last = word[5]
		life := word[1] + " " + word[3]
		if word[0] == "began" {
			at[life] = len(processes)
			processes = append(processes, Process{Pod: word[1], Slot: word[2], PID: pid, Began: when})
			continue
		}
		i, began := at[life]
		if word[0] != "ended" || !began {
			return nil, fmt.Errorf("reading the notes: %q has no beginning", lines.Text())
		}
		processes[i].Ended, processes[i].Code = when, code
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the notes: %w", err)
	}
	return processes, nil
}

func unixTime(text string) (time.Time, error) {
	seconds, nanos, _ := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	n, err := strconv.ParseInt(nanos, 10, 64)
	return time.Unix(s, n), err
}

// ReadJobcomp reads the file of Slurm's plugin jobcomp/filetxt: a line of NAME=value for
// each job that has ended. A value may have spaces. Other users' and odd lines are no error:
// lines that name no job are passed over.
func ReadJobcomp(r io.Reader) (jobs []Job, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := fieldsOf(lines.Text())
		if f["JobId"] == "" {
			continue
		}
		j := Job{ID: f["JobId"], Name: f["Name"], State: f["JobState"], Nodes: f["NodeList"]}
		if strings.HasPrefix(j.Nodes, "(") { // "(null)"
			j.Nodes = ""
		}
		code, signal, _ := strings.Cut(f["ExitCode"], ":")
		if j.Code, err = strconv.Atoi(code); err == nil {
			j.Signal, err = strconv.Atoi(signal)
		}
		if err != nil {
			return nil, fmt.Errorf("reading jobcomp: %q: %w", lines.Text(), err)
		}
		for name, to := range map[string]*time.Time{"SubmitTime": &j.Submitted, "StartTime": &j.Started, "EndTime": &j.Ended} {
			if t, err := time.ParseInLocation("2006-01-02T15:04:05", f[name], time.Local); err == nil {
				*to = t // else "Unknown"
			}
		}
		jobs = append(jobs, j)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading jobcomp: %w", err)
	}
	return jobs, nil
}

func fieldsOf(line string) map[string]string {
	fields, name := map[string]string{}, ""
	for _, word := range strings.Fields(line) {
		if n, value, is := strings.Cut(word, "="); is && n != "" {
			name = n
			fields[name] = value
		} else if name != "" {
			fields[name] += " " + word
		}
	}
	return fields
}
