package gangs

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
)

// Ref is how a user names a gang: a name, or one with a kind before it.
type Ref struct{ Kind, Name string }

// kinds are the names by which kinds can be asked for.
var kinds = map[string]string{
	"trainjob": "TrainJob", "trainjobs": "TrainJob", "tj": "TrainJob",
	"jobset": "JobSet", "jobsets": "JobSet",
	"pod": "Pod", "pods": "Pod", "po": "Pod",
	"mpijob": "MPIJob", "mpijobs": "MPIJob",
	"leaderworkerset": "LeaderWorkerSet", "leaderworkersets": "LeaderWorkerSet", "lws": "LeaderWorkerSet",
	"podgroup": "PodGroup", "podgroups": "PodGroup",
	"job": "Job", "jobs": "Job",
	"gang": "Gang", "gangs": "Gang",
}

// ParseRef reads "pi", "trainjob/pi", or the two words "trainjob", "pi".
func ParseRef(words ...string) (Ref, error) {
	text := strings.Join(words, "/")
	kind, name, ok := strings.Cut(text, "/")
	if !ok {
		kind, name = "", text
	}
	if name == "" || strings.Contains(name, "/") {
		return Ref{}, fmt.Errorf("%q names no gang: write a name (pi), or a kind and a name (trainjob/pi)", text)
	}
	if kind == "" && !ok {
		return Ref{Name: name}, nil
	}
	// A resource may be written with its API group: jobset.jobset.x-k8s.io/pi, as kubectl prints it.
	short, _, _ := strings.Cut(strings.ToLower(kind), ".")
	if kinds[short] == "" {
		return Ref{}, fmt.Errorf("%q is no kind that makes gangs: write one of trainjob, jobset, job, mpijob, leaderworkerset, podgroup, gang or pod", kind)
	}
	return Ref{Kind: kinds[short], Name: name}, nil
}

func (r Ref) String() string {
	if r.Kind == "" {
		return r.Name
	}
	return strings.ToLower(r.Kind) + "/" + r.Name
}

// Of tells whether the gang is meant. A TrainJob and its JobSet have one name, and mean the
// same gangs; "gang" is any kind. A pod means its gang, and a Job those of its pods.
func (r Ref) Of(g Gang) bool {
	ofPod := slices.ContainsFunc(g.Pods, func(p Pod) bool { return p.Name == r.Name })
	ofJob := slices.ContainsFunc(g.Pods, func(p Pod) bool { return p.Object.Labels[batchv1.JobNameLabel] == r.Name })
	switch r.Kind {
	case "", "Gang":
		return g.Name == r.Name || ofPod || ofJob
	case "Pod":
		return ofPod
	case "Job":
		return ofJob
	case "JobSet", "TrainJob":
		return g.Name == r.Name && (g.Kind == "JobSet" || g.Kind == "TrainJob")
	}
	return g.Kind == r.Kind && g.Name == r.Name
}

// Select are the gangs that a Ref means. A name without a kind means owners of the name
// first, and a pod or Job only if there is none: there may be several gangs, as of a JobSet whose
// stages follow each other.
func Select(all []Gang, r Ref) []Gang {
	var found []Gang
	for _, g := range all {
		if r.Of(g) {
			found = append(found, g)
		}
	}
	if r.Kind != "" {
		return found
	}
	named := slices.DeleteFunc(slices.Clone(found), func(g Gang) bool { return g.Name != r.Name })
	if len(named) > 0 {
		return named
	}
	return found
}
