package launcher

import (
	"encoding/json"
	"fmt"
)

// Step is what a workload manager is asked for: one process for each rank, on
// the node of the rank's pod, inside the job that holds the gang. The process is
// this product's own; it has the rank started in its pod.
type Step struct {
	// JobID is the job's id; Components is the number of parts of a
	// heterogeneous one, 1 for any other.
	JobID      string
	Components int
	Ranks      []Rank
	// PMI is the protocol that the ranks speak.
	PMI            string
	Label, Verbose bool
	Stdin          string
	// Program is the file of the process and Spool its argument.
	Program, Spool string
	// Scratch is a directory for the command's files.
	Scratch string
}

// Command is a command line of the workload manager, and the files that it
// reads.
type Command struct {
	Argv  []string
	Files []File
}

// File is a file to be written.
type File struct{ Path, Data string }

// StepVariable carries StepOrders to the processes of a step.
const StepVariable = "GANGLINE_STEP"

// maxOrders keeps an entry of the environment below the kernel's limit of
// 128 KiB (MAX_ARG_STRLEN in execve(2)).
const maxOrders = 120 << 10

// StepOrders tell each process of a step what its rank is.
type StepOrders struct {
	// Step is a name that no other step of the gang has.
	Step string `json:"step"`
	// Runs lists the ranks in order.
	Runs     []Run         `json:"runs"`
	Programs []RankProgram `json:"programs"`
	PMI      string        `json:"pmi"`
}

// Run is a number of ranks of one program in one slot.
type Run struct {
	Slot    int `json:"slot"`
	Program int `json:"program,omitempty"`
	Ranks   int `json:"ranks"`
}

// RankProgram is what a rank runs.
type RankProgram struct {
	Argv []string `json:"argv"`
	// Dir is the working directory; DirGiven tells that the command line says so,
	// and that it is not only the launcher's own.
	Dir      string   `json:"dir,omitempty"`
	DirGiven bool     `json:"dirGiven,omitempty"`
	Env      []string `json:"env,omitempty"`
}

// Encode makes the text of StepVariable.
func (o StepOrders) Encode() (string, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encoding what the ranks are: %w", err)
	}
	if len(data) > maxOrders {
		return "", fmt.Errorf("the program's words and variables take %d bytes and may take %d; pass on fewer variables", len(data), maxOrders)
	}
	return string(data), nil
}

// DecodeStepOrders reads them back.
func DecodeStepOrders(text string) (StepOrders, error) {
	var o StepOrders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, fmt.Errorf("reading %s: %w", StepVariable, err)
	}
	return o, nil
}

// Rank finds the run that a rank, counted from 0, belongs to.
func (o StepOrders) Rank(n int) (Run, bool) {
	for _, run := range o.Runs {
		if n < run.Ranks {
			return run, n >= 0 && run.Program < len(o.Programs)
		}
		n -= run.Ranks
	}
	return Run{}, false
}

// Size is the number of ranks.
func (o StepOrders) Size() int {
	n := 0
	for _, run := range o.Runs {
		n += run.Ranks
	}
	return n
}

// RunsOf joins ranks that follow each other in the same place.
func RunsOf(ranks []Rank) []Run {
	var runs []Run
	for _, r := range ranks {
		if last := len(runs) - 1; last >= 0 && runs[last].Slot == r.Pod.Slot && runs[last].Program == r.Program {
			runs[last].Ranks++
			continue
		}
		runs = append(runs, Run{r.Pod.Slot, r.Program, 1})
	}
	return runs
}
