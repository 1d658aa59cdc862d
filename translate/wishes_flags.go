package translate

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Flag is one option of sbatch's that a pod may set where the site allows it.
type Flag struct {
	Name string // without dashes
	// Value is what follows "=", and HasValue whether that is written.
	Value    string
	HasValue bool
}

// String is the option as sbatch takes it: one argument, whatever the value.
func (f Flag) String() string {
	if !f.HasValue {
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + f.Value
}

var flagNamePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{1,31}$`)

// ParseFlags reads options that are separated by spaces: --name or --name=value. There
// are no quotes and no escapes: nothing of it ever reaches a shell, and a value has no
// spaces.
func ParseFlags(text string) ([]Flag, error) {
	if len(text) > 4*maxText {
		return nil, fmt.Errorf("it is longer than %d bytes", 4*maxText)
	}
	var flags []Flag
	seen := map[string]bool{}
	for _, word := range strings.Fields(text) {
		option, long := strings.CutPrefix(word, "--")
		if !long {
			return nil, fmt.Errorf("%q is no long option; write --name=value, separated by spaces", word)
		}
		f := Flag{}
		f.Name, f.Value, f.HasValue = strings.Cut(option, "=")
		if !flagNamePattern.MatchString(f.Name) {
			return nil, fmt.Errorf("%q is no option of sbatch's", "--"+f.Name)
		}
		if seen[f.Name] {
			return nil, fmt.Errorf("--%s is written twice", f.Name)
		}
		seen[f.Name] = true
		if strings.ContainsFunc(f.Value, func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune("'\"`\\$;", r) }) {
			return nil, fmt.Errorf("the value of --%s has quotes, escapes or a shell's signs; write it plainly", f.Name)
		}
		flags = append(flags, f)
	}
	if len(flags) == 0 {
		return nil, errors.New("there is no option in it")
	}
	return flags, nil
}

// OwnSbatchOptions are the options that no pod may set, and what to do instead: the
// allocation would not be the gang's any more, or would be another user's.
func OwnSbatchOptions() map[string]string {
	const (
		user    = "the site maps the pod to an HPC user"
		sizes   = "the pods' own requests size the job"
		ours    = "it is set for every gang"
		runs    = "what runs is the gang's agents"
		answers = "it changes how sbatch answers"
		array   = "a gang is one job, and no array"
		mail    = "no mail is sent; watch the pods"
	)
	instead := func(annotation string) string { return "use the annotation gangline.dev/" + annotation }
	options := map[string]string{}
	for reason, names := range map[string]string{
		user:    "uid gid get-user-env",
		sizes:   "ntasks cpus-per-task mem mem-per-cpu mem-per-gpu gpus gpus-per-node gpus-per-socket gpus-per-task gres ntasks-per-node ntasks-per-socket ntasks-per-gpu ntasks-per-core cpus-per-gpu distribution tres-per-task overcommit nodefile",
		ours:    "job-name chdir output error input open-mode requeue no-requeue export export-file propagate no-kill signal kill-on-invalid-dep hold",
		runs:    "wrap bcast",
		answers: "parsable test-only wait quiet verbose help usage version clusters cluster-constraint ignore-pbs",
		array:   "array",
		mail:    "mail-type mail-user",

		instead("partition"):               "partition",
		instead("account"):                 "account",
		instead("qos"):                     "qos",
		instead("reservation"):             "reservation",
		instead("constraint"):              "constraint",
		instead("time-limit"):              "time time-min",
		instead("nodes-exclusive"):         "exclusive oversubscribe",
		instead("licenses"):                "licenses",
		instead("switches"):                "switches",
		instead("min-nodes and max-nodes"): "nodes",
		instead("nice"):                    "nice",
		instead("comment"):                 "comment",
		instead("wckey"):                   "wckey",
		instead("depends-on"):              "dependency",
	} {
		for _, name := range strings.Fields(names) {
			options[name] = reason
		}
	}
	return options
}

// FlagProblems are what is wrong with a site's list of allowed options.
func FlagProblems(allowed []string) []string {
	var problems []string
	own := OwnSbatchOptions()
	for _, name := range allowed {
		if !flagNamePattern.MatchString(name) {
			problems = append(problems, fmt.Sprintf("slurm.allowedFlags: %q is no option of sbatch's; write its long name without dashes", name))
		} else if why, ours := own[name]; ours {
			problems = append(problems, fmt.Sprintf("slurm.allowedFlags: --%s cannot be allowed: %s", name, why))
		}
	}
	return problems
}
