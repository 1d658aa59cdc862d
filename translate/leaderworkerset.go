package translate

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// The parts of a LeaderWorkerSet's group.
const (
	lwsLeader = "leader"
	lwsWorker = "worker"
)

// leaderWorkerSet is what matters here of a LeaderWorkerSet of
// leaderworkerset.x-k8s.io/v1 (api/leaderworkerset/v1), and its defaults.
type leaderWorkerSet struct {
	Metadata ownerMeta `json:"metadata"`
	Spec     struct {
		Replicas      *int32 `json:"replicas"` // 1
		StartupPolicy string `json:"startupPolicy"`
		NetworkConfig struct {
			SubdomainPolicy string `json:"subdomainPolicy"` // Shared
		} `json:"networkConfig"`
		LeaderWorkerTemplate struct {
			LeaderTemplate *corev1.PodTemplateSpec `json:"leaderTemplate"` // the workers'
			WorkerTemplate corev1.PodTemplateSpec  `json:"workerTemplate"`
			Size           *int32                  `json:"size"` // 1
		} `json:"leaderWorkerTemplate"`
	} `json:"spec"`
}

// LWSGroup is one group of a LeaderWorkerSet: a leader and its workers.
type LWSGroup struct {
	Set   string // the LeaderWorkerSet's name
	Index int
	// Revision is that of the templates: in a rolling update a group is made anew
	// and may be of another shape.
	Revision string
}

// Key is the key of the group's gang. The set's own group-key label is made of
// names, which another set may have later.
func (g LWSGroup) Key(uid types.UID) string {
	return fmt.Sprintf("%s%d/%s", LWSKeyPrefix(uid), g.Index, g.Revision)
}

// LWSKeyPrefix is how the keys of all gangs of a set begin.
func LWSKeyPrefix(uid types.UID) string { return "lws/" + string(uid) + "/" }

// LWSGroupOf reads a pod's group and its place in it from its labels. It reports
// false for a pod of no LeaderWorkerSet.
func LWSGroupOf(pod *corev1.Pod) (LWSGroup, Role, bool) {
	set, ok := pod.Labels[wellknown.LabelLWSName]
	group, err := strconv.Atoi(pod.Labels[wellknown.LabelLWSGroupIndex])
	worker, workerErr := strconv.Atoi(pod.Labels[wellknown.LabelLWSWorkerIndex])
	if !ok || err != nil || workerErr != nil {
		return LWSGroup{}, Role{}, false
	}
	return LWSGroup{Set: set, Index: group, Revision: pod.Labels[wellknown.LabelLWSRevision]}, lwsRole(worker), true
}

func lwsRole(worker int) Role {
	if worker == 0 {
		return Role{Group: lwsLeader}
	}
	return Role{Group: lwsWorker, Index: worker}
}

// LWSGang is the gang of one group of a LeaderWorkerSet: the leader, then the
// workers in order, which are late where they wait for a ready leader. The size
// comes from the group's pods, if there are any: in a rolling update the set
// speaks of the next revision already.
func LWSGang(u *unstructured.Unstructured, g LWSGroup, pods []*corev1.Pod, o Options) (Declaration, error) {
	set, err := decode[leaderWorkerSet](u)
	if err != nil {
		return Declaration{}, err
	}
	d := Declaration{
		Gang: set.Metadata.gang(g.Key(set.Metadata.UID), "LeaderWorkerSet"),
		Gone: set.Metadata.DeletionTimestamp != nil || g.Index >= int(ptr.Deref(set.Spec.Replicas, 1)) && len(pods) == 0,
	}
	d.Owner += fmt.Sprintf(" group %d", g.Index)
	d.PodLabels = map[string]string{wellknown.LabelLWSName: g.Set, wellknown.LabelLWSGroupIndex: strconv.Itoa(g.Index)}
	templates := set.Spec.LeaderWorkerTemplate
	leader, worker := ptr.Deref(templates.LeaderTemplate, templates.WorkerTemplate), templates.WorkerTemplate
	d.Whole = o.Selects(leader.Spec) && o.Selects(worker.Spec)
	size := lwsSize(pods, ptr.Deref(templates.Size, 1))
	if o.Selects(leader.Spec) && !d.count(o, 1, 1) || o.Selects(worker.Spec) && !d.count(o, int64(size)-1, 1) {
		return d, nil
	}
	override := map[string]bool{}
	add := func(t corev1.PodTemplateSpec, from, to int) {
		if !o.Selects(t.Spec) {
			return
		}
		resources, late := PodResources(t.Spec, o.GPUResource, o.Devices), set.Spec.StartupPolicy == "LeaderReady" && o.Selects(leader.Spec)
		for i := from; i < to; i++ {
			d.Slots = append(d.Slots, Slot{
				Role:      lwsRole(i),
				Hosts:     set.hosts(g, i, o.ClusterDomain),
				Resources: resources,
				First:     i == 0 || !late,
				MPISlots:  mpiSlots(t.Annotations, set.Metadata.Annotations, resources),
			})
		}
		if v, err := strconv.ParseBool(t.Annotations[wellknown.AnnotationRides]); err == nil {
			override[lwsRole(from).Group] = v
		}
	}
	add(leader, 0, 1)
	add(worker, 1, size)
	markRiders(d.Slots, override)
	return d, nil
}

// lwsSize is a group's number of pods: as its pods say, else the default.
func lwsSize(pods []*corev1.Pod, otherwise int32) int {
	for _, p := range pods {
		if n, err := strconv.Atoi(p.Annotations[wellknown.AnnotationLWSSize]); err == nil && n > 0 {
			return n
		}
	}
	return int(otherwise)
}

// hosts are the names of a pod: the leader is the group's pod of a StatefulSet of
// the set's name, the workers are those of one that has the leader's.
func (s leaderWorkerSet) hosts(g LWSGroup, worker int, domain string) []string {
	leader := fmt.Sprintf("%s-%d", s.Metadata.Name, g.Index)
	host, subdomain := leader, s.Metadata.Name
	if worker > 0 {
		host = fmt.Sprintf("%s-%d", leader, worker)
	}
	if s.Spec.NetworkConfig.SubdomainPolicy == "UniquePerReplica" {
		subdomain = leader
	}
	return hostNames(host, subdomain, s.Metadata.Namespace, domain)
}
