package translate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Dependency is another gang of the namespace that has to come first.
type Dependency struct {
	// Type is sbatch's: afterok, afterany, afternotok or after.
	Type string
	// Kind and Name are the other gang's owner's.
	Kind, Name string
}

func (d Dependency) String() string { return d.Type + ":" + d.Kind + "/" + d.Name }

// dependencyTypes are those of sbatch's --dependency that make sense for gangs.
func dependencyTypes() []string { return []string{"afterok", "afterany", "afternotok", "after"} }

// dependencyKinds are the owners of gangs. "Gang" is one that an annotation joins.
func dependencyKinds() []string {
	return []string{"JobSet", "TrainJob", "Pod", "MPIJob", "LeaderWorkerSet", "PodGroup", "Gang"}
}

const maxDependencies = 32

// ParseDependencies reads "[type:]Kind/name", joined by commas: all of them have to be
// satisfied.
func ParseDependencies(text string) ([]Dependency, error) {
	var all []Dependency
	for _, part := range strings.Split(text, ",") {
		d := Dependency{Type: "afterok"}
		object := strings.TrimSpace(part)
		if before, after, typed := strings.Cut(object, ":"); typed {
			d.Type, object = before, after
		}
		d.Kind, d.Name, _ = strings.Cut(object, "/")
		switch {
		case !slices.Contains(dependencyTypes(), d.Type):
			return nil, fmt.Errorf("%q is none of %s", d.Type, strings.Join(dependencyTypes(), ", "))
		case !slices.Contains(dependencyKinds(), d.Kind):
			return nil, fmt.Errorf("%q names no gang; write [type:]Kind/name with one of the kinds %s", part, strings.Join(dependencyKinds(), ", "))
		case len(validation.IsDNS1123Subdomain(d.Name)) > 0:
			return nil, fmt.Errorf("%q is no name of a %s", d.Name, d.Kind)
		}
		all = append(all, d)
	}
	if len(all) > maxDependencies {
		return nil, fmt.Errorf("it names more than %d gangs", maxDependencies)
	}
	return all, nil
}

// IsOf tells whether a gang is one that the dependency means, by the owner's words
// (Gang.Owner, "JobSet default/pi"). A TrainJob's gangs are those of the JobSet of its
// name.
func (d Dependency) IsOf(owner, namespace string) bool {
	kind := map[string]string{"TrainJob": "JobSet", "Gang": "gang"}[d.Kind]
	if kind == "" {
		kind = d.Kind
	}
	return owner == kind+" "+namespace+"/"+d.Name
}
