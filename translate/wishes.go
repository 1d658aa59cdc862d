package translate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/translate/wellknown"
)

var (
	// namePattern is that of Slurm's names. They begin with no dash, so that
	// none reads as an option, and hold no comma, so that each is one name.
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,127}$`)
	// constraintPattern is that of sbatch's --constraint.
	constraintPattern = regexp.MustCompile(`^[A-Za-z0-9_!(\[][A-Za-z0-9_&|*!()\[\],.:-]{0,511}$`)
)

// wish is one annotation: our name, slurm-bridge's, and how its value is read.
type wish struct {
	name, alias string
	read        func(w *Wishes, value string) error
}

func wishes() []wish {
	return []wish{
		{wellknown.AnnotationPartition, "partition", func(w *Wishes, v string) error {
			w.Partition = v
			return checkName(v)
		}},
		{wellknown.AnnotationAccount, "account", func(w *Wishes, v string) error {
			w.Account = v
			return checkName(v)
		}},
		{wellknown.AnnotationQOS, "qos", func(w *Wishes, v string) error {
			w.QOS = v
			return checkName(v)
		}},
		{wellknown.AnnotationReservation, "reservation", func(w *Wishes, v string) error {
			w.Reservation = v
			return checkName(v)
		}},
		{wellknown.AnnotationConstraint, "constraints", func(w *Wishes, v string) error {
			w.Constraint = v
			if !constraintPattern.MatchString(v) {
				return errors.New("write features of nodes as sbatch's --constraint takes them, without spaces, e.g. \"gpu&ib\"")
			}
			return nil
		}},
		{wellknown.AnnotationTimeLimit, "timelimit", func(w *Wishes, v string) (err error) {
			w.TimeLimit, err = ParseTimeLimit(v)
			return err
		}},
		{wellknown.AnnotationNodesExclusive, "exclusive", func(w *Wishes, v string) error {
			w.Exclusive = v == "true"
			if v != "true" && v != "false" {
				return errors.New(`write "true" or "false"`)
			}
			return nil
		}},
		{wellknown.AnnotationMPILaunch, "", func(w *Wishes, v string) error {
			w.MPILaunch = v
			if v != "ssh" && v != "srun" {
				return errors.New(`write "ssh" or "srun"`)
			}
			return nil
		}},
		{wellknown.AnnotationMPIPMI, "", func(w *Wishes, v string) error {
			w.MPIPMI = v
			return launcher.CheckPMI(v)
		}},
	}
}

// ParseWishes reads what a pod's annotations, and its owner's, ask of the
// allocation. Ours on the pod come first, then ours on the owner, then
// slurm-bridge's in the same order; an empty one counts as absent. Partitions
// are the names that may be asked for.
func ParseWishes(pod, owner map[string]string, partitions []string) (Wishes, *Rejection) {
	find := func(name string) string {
		if v := pod[name]; v != "" {
			return v
		}
		return owner[name]
	}
	for _, id := range slinkyIdentity() {
		if find(wellknown.SlurmBridgePrefix+id) != "" {
			return Wishes{}, badAnnotation(wellknown.SlurmBridgePrefix+id, "is not supported: "+siteIdentity+". Remove it.")
		}
	}
	var w Wishes
	for _, wish := range wishes() {
		name := wish.name
		value := find(name)
		if value == "" && wish.alias != "" {
			name = wellknown.SlurmBridgePrefix + wish.alias
			value = find(name)
		}
		if value == "" {
			continue
		}
		if err := wish.read(&w, value); err != nil {
			return Wishes{}, badAnnotation(name, fmt.Sprintf("is %q: %v.", value, err))
		}
	}
	if w.Partition != "" && !slices.Contains(partitions, w.Partition) {
		offered := "none"
		if len(partitions) > 0 {
			offered = strings.Join(partitions, ", ")
		}
		return Wishes{}, &Rejection{
			Reason:  wellknown.ReasonUnknownPartition,
			Field:   annotationField(wellknown.AnnotationPartition),
			Message: fmt.Sprintf("There is no partition %q for pods here. Ask for one of these: %s.", w.Partition, offered),
		}
	}
	return w, nil
}

// slinkyIdentity are slurm-bridge's annotations that choose a user.
func slinkyIdentity() []string { return []string{"user-id", "group-id"} }

// isSlinkyWish tells whether one of slurm-bridge's annotations is read here.
func isSlinkyWish(alias string) bool {
	return slices.Contains(slinkyIdentity(), alias) || alias != "" &&
		slices.ContainsFunc(wishes(), func(w wish) bool { return w.alias == alias })
}

func checkName(v string) error {
	if !namePattern.MatchString(v) {
		return errors.New("write one name of letters, digits and _ . + @ - that does not begin with a sign")
	}
	return nil
}

func badAnnotation(name, problem string) *Rejection {
	return &Rejection{
		Reason:  wellknown.ReasonBadAnnotation,
		Field:   annotationField(name),
		Message: fmt.Sprintf("The annotation %s %s", name, problem),
	}
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }
