package translate

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/translate/wellknown"
)

var (
	// namePattern is that of Slurm's names. They begin with no dash, so that
	// none reads as an option, and hold no comma, so that each is one name.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,127}$`)
	// constraintPattern is that of sbatch's --constraint.
	constraintPattern = regexp.MustCompile(`^[A-Za-z0-9_!(\[][A-Za-z0-9_&|*!()\[\],.:-]{0,511}$`)
	// licensesPattern is that of sbatch's --licenses: name[@db][:count], joined by commas
	// (all of them) or | (one of them).
	licensesPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@/+-]*(:[0-9]{1,9})?([,|][A-Za-z0-9_][A-Za-z0-9_.@/+-]*(:[0-9]{1,9})?)*$`)
)

// wish is one annotation that asks something of the allocation.
type wish struct {
	name string
	// alias is the name that users of another project write for the same.
	alias string
	// values says what may be written, and about what becomes of it, for the
	// documentation.
	values, about string
	// read takes a value that is not empty.
	read func(w *Wishes, value string) error
	// offered refuses what is well written and not to be had here; nil where
	// everything is.
	offered func(w Wishes, o Offer, name string) *Rejection
	// merge takes over another pod's wish and reports false if they contradict each
	// other; nil for what is each pod's own.
	merge func(mine, theirs *Wishes) bool
}

// aName is a wish of one name.
func aName(at func(*Wishes) *string) func(*Wishes, string) error {
	return func(w *Wishes, v string) error {
		*at(w) = v
		return checkName(v)
	}
}

// matching is a wish of a text of a pattern.
func matching(at func(*Wishes) *string, pattern *regexp.Regexp, otherwise string) func(*Wishes, string) error {
	return func(w *Wishes, v string) error {
		*at(w) = v
		if len(v) > maxText || !pattern.MatchString(v) {
			return errors.New(otherwise)
		}
		return nil
	}
}

// aNumber is a wish of a whole number.
func aNumber(at func(*Wishes) *int, least, most int) func(*Wishes, string) error {
	return func(w *Wishes, v string) error {
		n, err := parseNumber(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("write a whole number from %d to %d", least, most)
		}
		*at(w) = n
		return nil
	}
}

const (
	// maxText bounds the texts that pods may write, in bytes.
	maxText = 512
	// MaxNice is Slurm's own limit of --nice.
	MaxNice = math.MaxInt32 - 2
)

// wishes is the table of all that an allocation can be asked for, in the order of the
// documentation. The options are those of sbatch(1).
func wishes() []wish {
	bridge := func(name string) string { return wellknown.SlurmBridgePrefix + name }
	partition := func(w *Wishes) *string { return &w.Partition }
	account := func(w *Wishes) *string { return &w.Account }
	qos := func(w *Wishes) *string { return &w.QOS }
	reservation := func(w *Wishes) *string { return &w.Reservation }
	constraint := func(w *Wishes) *string { return &w.Constraint }
	timeLimit := func(w *Wishes) *time.Duration { return &w.TimeLimit }
	warning := func(w *Wishes) *time.Duration { return &w.TimeLimitWarning }
	gpuType := func(w *Wishes) *string { return &w.GPUType }
	licenses := func(w *Wishes) *string { return &w.Licenses }
	minNodes := func(w *Wishes) *int { return &w.MinNodes }
	maxNodes := func(w *Wishes) *int { return &w.MaxNodes }
	nice := func(w *Wishes) *int { return &w.Nice }
	comment := func(w *Wishes) *string { return &w.Comment }
	wckey := func(w *Wishes) *string { return &w.WCKey }
	return []wish{
		{
			name: wellknown.AnnotationPartition, alias: bridge("partition"), values: "one name",
			about: "the partition, one of those that the site offers",
			read:  aName(partition), offered: offeredPartition, merge: shared(partition),
		},
		{
			name: wellknown.AnnotationAccount, alias: bridge("account"), values: "one name", about: "whom the job is charged to",
			read: aName(account), merge: shared(account),
		},
		{
			name: wellknown.AnnotationQOS, alias: bridge("qos"), values: "one name", about: "the quality of service",
			read: aName(qos), merge: shared(qos),
		},
		{
			name: wellknown.AnnotationReservation, alias: bridge("reservation"), values: "one name", about: "the reservation that the job uses",
			read: aName(reservation), merge: shared(reservation),
		},
		{
			name: wellknown.AnnotationConstraint, alias: bridge("constraints"), values: "`ib&h100`, `[rack1|rack2]`",
			about: "features that the nodes must have, in the syntax of `--constraint`, without spaces",
			read:  matching(constraint, constraintPattern, `write features of nodes as sbatch's --constraint takes them, without spaces, e.g. "gpu&ib"`),
			merge: shared(constraint),
		},
		{
			name: wellknown.AnnotationTimeLimit, alias: bridge("timelimit"), values: "`90m`, `1h30m`, `90` (minutes), `1-12:00:00`, `UNLIMITED`",
			about: "how long the job may run; whole minutes, rounded up",
			read: func(w *Wishes, v string) (err error) {
				w.TimeLimit, err = ParseTimeLimit(v)
				return err
			},
			merge: shared(timeLimit),
		},
		{
			name: wellknown.AnnotationTimeLimitWarning, values: "`5m`, `300s`, `0`",
			about: "how long before the time limit the pods get SIGTERM, and so how long they have to save their work; by default the site's, or each pod's own grace period; with `0` they are stopped by the limit alone",
			read:  readWarning, merge: shared(warning),
		},
		{
			name: wellknown.AnnotationNodesExclusive, alias: bridge("exclusive"), values: "`true`, `false`", about: "whole nodes, with all of their memory",
			read: func(w *Wishes, v string) error {
				w.Exclusive = v == "true"
				if v != "true" && v != "false" {
					return errors.New(`write "true" or "false"`)
				}
				return nil
			},
			merge: shared(func(w *Wishes) *bool { return &w.Exclusive }),
		},
		{
			name: wellknown.AnnotationGPUType, values: "one name", about: "the type of the GPUs that the pods request, one of those that the HPC nodes have",
			read: aName(gpuType), offered: offeredGPUType, merge: shared(gpuType),
		},
		{
			name: wellknown.AnnotationLicenses, alias: bridge("licenses"), values: "`ansys:2,matlab`", about: "licenses that the whole job needs",
			read:  matching(licenses, licensesPattern, `write licenses as sbatch's --licenses takes them, e.g. "ansys:2,matlab"`),
			merge: shared(licenses),
		},
		{
			name: wellknown.AnnotationSwitches, values: "`1`, `1@2:00:00`",
			about: "at most so many leaf switches, and how long to wait for that before more will do",
			read: func(w *Wishes, v string) (err error) {
				w.Switches, err = ParseSwitches(v)
				return err
			},
			merge: shared(func(w *Wishes) *Switches { return &w.Switches }),
		},
		{
			name: wellknown.AnnotationMinNodes, alias: bridge("min-nodes"), values: "a number", about: "the job is spread over at least so many nodes; not for pods of unequal size",
			read: aNumber(minNodes, 1, maxNodesEver), merge: shared(minNodes),
		},
		{
			name: wellknown.AnnotationMaxNodes, alias: bridge("max-nodes"), values: "a number", about: "the job is packed onto at most so many nodes; not for pods of unequal size",
			read: aNumber(maxNodes, 1, maxNodesEver), merge: shared(maxNodes),
		},
		{
			name: wellknown.AnnotationNice, values: "a number from 1", about: "how far the job stands back in the queue; it wins over what the site gives to the pod's PriorityClass",
			read: aNumber(nice, 1, MaxNice), merge: shared(nice),
		},
		{
			name: wellknown.AnnotationComment, values: "a line of text", about: "follows the owner's name in the job's comment",
			read: func(w *Wishes, v string) error {
				w.Comment = v
				return checkText(v)
			},
			merge: shared(comment),
		},
		{
			name: wellknown.AnnotationWCKey, alias: bridge("wckey"), values: "one name", about: "the workload characterization key",
			read: aName(wckey), merge: shared(wckey),
		},
		{
			name: wellknown.AnnotationDependsOn, values: "`JobSet/prepare`, `afterany:Pod/a,afterok:TrainJob/b`",
			about: "gangs of the same namespace that come first: `afterok` (if none is written), `afterany`, `afternotok`, `after`. The pods wait until each of them exists",
			read: func(w *Wishes, v string) (err error) {
				w.DependsOn, err = ParseDependencies(v)
				return err
			},
			merge: shared(func(w *Wishes) *[]Dependency { return &w.DependsOn }),
		},
		{
			name: wellknown.AnnotationSbatchFlags, alias: wellknown.InterLinkPrefix + "flags", values: "`--hint=nomultithread --contiguous`",
			about: "options of `sbatch` that the site has allowed (`slurm.allowedFlags`), in their long form and with `=` before the value",
			read: func(w *Wishes, v string) (err error) {
				w.Flags, err = ParseFlags(v)
				return err
			},
			offered: offeredFlags, merge: shared(func(w *Wishes) *[]Flag { return &w.Flags }),
		},
		{
			name: wellknown.AnnotationMPILaunch, values: "`ssh`, `srun`", about: "how `mpirun` in the pod starts its ranks; each pod's own",
			read: func(w *Wishes, v string) error {
				w.MPILaunch = v
				if v != "ssh" && v != "srun" {
					return errors.New(`write "ssh" or "srun"`)
				}
				return nil
			},
		},
		{
			name: wellknown.AnnotationRuntime, values: "`host`, `charliecloud`, `bubblewrap`, `podman`, `apptainer`, `singularity`, `enroot`",
			about: "what runs the pod's images, one of those that the site offers; `host` runs its commands as programs of the HPC node, without an image ([containers.md](containers.md)); each pod's own",
			read:  readRuntime, offered: offeredRuntime,
		},
		{
			name: wellknown.AnnotationMPIPMI, values: "`pmix`, `pmi2`", about: "the protocol of ranks that `srun` starts; each pod's own",
			read: func(w *Wishes, v string) error {
				w.MPIPMI = v
				return launcher.CheckPMI(v)
			},
		},
	}
}

// maxNodesEver is more than any cluster has.
const maxNodesEver = 1 << 20

func readWarning(w *Wishes, v string) error {
	if v == "0" || v == "0s" {
		w.TimeLimitWarning = NoTimeLimitWarning
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second || d > 7*24*time.Hour {
		return errors.New(`write a duration from 1s to 168h ("5m"), or 0 for no warning`)
	}
	w.TimeLimitWarning = d
	return nil
}

// checkText refuses what could not be one line of text.
func checkText(v string) error {
	if len(v) > maxText || !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("write one line of text of at most %d bytes", maxText)
	}
	return nil
}

// Switches are how many leaf switches a job may span, 0 for any, and how long it waits
// for that, 0 for as long as the site lets it.
type Switches struct {
	Count int
	Wait  time.Duration
}

// ParseSwitches reads "count" or "count@time", the time in one of Slurm's forms or Go's.
func ParseSwitches(v string) (Switches, error) {
	count, wait, timed := strings.Cut(v, "@")
	n, err := parseNumber(count)
	if err != nil || n < 1 {
		return Switches{}, errors.New(`write a number of switches, and a time to wait if you like: "1" or "1@2:00:00"`)
	}
	s := Switches{Count: n}
	if timed {
		if s.Wait, err = ParseTimeLimit(wait); err != nil {
			return Switches{}, fmt.Errorf("the time to wait: %w", err)
		}
	}
	return s, nil
}

// String is the value of sbatch's --switches, "" for none. Slurm counts the wait in
// whole minutes.
func (s Switches) String() string {
	switch {
	case s.Count == 0:
		return ""
	case s.Wait == 0 || s.Wait >= NoTimeLimit:
		return strconv.Itoa(s.Count)
	}
	return fmt.Sprintf("%d@%d", s.Count, wholeMinutes(s.Wait))
}

// wholeMinutes rounds up: Slurm counts in whole minutes.
func wholeMinutes(d time.Duration) int64 { return int64((d + time.Minute - 1) / time.Minute) }
