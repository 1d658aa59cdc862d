package translate

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gangline/gangline/translate/wellknown"
)

// Offer is what may be wished for here. A list that is nil is not known: then the
// workload manager itself has to judge.
type Offer struct {
	Partitions []string
	// GPUTypes are those that the HPC nodes have.
	GPUTypes []string
	// Flags are the options of sbatch's that the site lets pods set freely, without
	// dashes. None are unless it says so.
	Flags []string
	// Runtimes are the container runtimes that the site lets pods choose, RuntimeHost among
	// them; nil for any.
	Runtimes []string
}

// ParseWishes reads what a pod's annotations, and its owner's, ask of the
// allocation. Ours on the pod come first, then ours on the owner, then
// the aliases in the same order; an empty one counts as absent.
func ParseWishes(pod, owner map[string]string, offer Offer) (Wishes, *Rejection) {
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
			name = wish.alias
			value = find(name)
		}
		if value == "" {
			continue
		}
		if err := wish.read(&w, value); err != nil {
			return Wishes{}, badAnnotation(name, fmt.Sprintf("is %q: %v.", value, err))
		}
		if wish.offered == nil {
			continue
		}
		if rejection := wish.offered(w, offer, name); rejection != nil {
			return Wishes{}, rejection
		}
	}
	if w.MinNodes > 0 && w.MaxNodes > 0 && w.MinNodes > w.MaxNodes {
		return Wishes{}, badAnnotation(wellknown.AnnotationMinNodes, fmt.Sprintf("is %d, more than the %d of %s.", w.MinNodes, w.MaxNodes, wellknown.AnnotationMaxNodes))
	}
	return w, nil
}

func offeredPartition(w Wishes, o Offer, _ string) *Rejection {
	if o.Partitions == nil || slices.Contains(o.Partitions, w.Partition) {
		return nil
	}
	return &Rejection{
		Reason:  wellknown.ReasonUnknownPartition,
		Field:   annotationField(wellknown.AnnotationPartition),
		Message: fmt.Sprintf("There is no partition %q for pods here. Ask for one of these: %s.", w.Partition, listed(o.Partitions)),
	}
}

func offeredGPUType(w Wishes, o Offer, name string) *Rejection {
	if o.GPUTypes == nil || slices.Contains(o.GPUTypes, w.GPUType) {
		return nil
	}
	return badAnnotation(name, fmt.Sprintf("is %q: there are no such GPUs here. Ask for one of these types: %s.", w.GPUType, listed(o.GPUTypes)))
}

func offeredFlags(w Wishes, o Offer, name string) *Rejection {
	for _, f := range w.Flags {
		if instead, own := OwnSbatchOptions()[f.Name]; own {
			return badAnnotation(name, fmt.Sprintf("has --%s: %s.", f.Name, instead))
		}
		if !slices.Contains(o.Flags, f.Name) {
			return badAnnotation(name, fmt.Sprintf("has --%s, which the site does not allow. It allows these: %s.", f.Name, listed(o.Flags)))
		}
	}
	return nil
}

// listed names what there is to choose from.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Merge fills what is not set in w from another's wishes. Where both say
// something and not the same, it names the wish: a gang is one job.
func (w Wishes) Merge(other Wishes) (merged Wishes, conflict string) {
	for _, wish := range wishes() {
		if wish.merge != nil && !wish.merge(&w, &other) {
			conflict = strings.TrimPrefix(wish.name, wellknown.Domain+"/")
		}
	}
	return w, conflict
}

// shared is the merge of a wish that is the whole gang's.
func shared[T any](at func(*Wishes) *T) func(mine, theirs *Wishes) bool {
	return func(mine, theirs *Wishes) bool {
		m, t := at(mine), at(theirs)
		switch {
		case reflect.ValueOf(t).Elem().IsZero():
			return true
		case reflect.ValueOf(m).Elem().IsZero():
			*m = *t
			return true
		}
		return reflect.DeepEqual(*m, *t)
	}
}

// slinkyIdentity are slurm-bridge's annotations that choose a user.
func slinkyIdentity() []string { return []string{"user-id", "group-id"} }

// isAlias tells whether an annotation of another project is read here, or refused.
func isAlias(name string) bool {
	if id, ok := strings.CutPrefix(name, wellknown.SlurmBridgePrefix); ok && slices.Contains(slinkyIdentity(), id) {
		return true
	}
	return name != "" && slices.ContainsFunc(wishes(), func(w wish) bool { return w.alias == name })
}

func badAnnotation(name, problem string) *Rejection {
	return &Rejection{
		Reason:  wellknown.ReasonBadAnnotation,
		Field:   annotationField(name),
		Message: fmt.Sprintf("The annotation %s %s", name, problem),
	}
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }

var errOneName = errors.New("write one name of letters, digits and _ . + @ - that does not begin with a sign")

func checkName(v string) error {
	if !namePattern.MatchString(v) {
		return errOneName
	}
	return nil
}
