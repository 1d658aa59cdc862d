package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Gang is the pods that must run together, as their owner declares them: it
// is known before the pods are.
type Gang struct {
	// Key identifies the gang for as long as its owner lives. It is made of
	// UIDs, never of names alone.
	Key       string
	Namespace string
	// Owner is the owner in words ("JobSet default/pi"), OwnerName its name
	// and OwnerUID its UID.
	Owner     string
	OwnerName string
	OwnerUID  types.UID
	// Slots in rank order; none where there are too many, see Size.
	Slots    []Slot
	declared int64 // pods, as far as they were counted before the slots were made
	// Refills tells that the owner may put a new pod into a slot whose pod
	// has failed or was deleted, so that an allocation without pods is worth
	// keeping for a while.
	Refills bool
	// Waves tells that a Job runs more pods, one after the other, than it has
	// places: all places may be done while pods are still to come.
	Waves bool
	// Whole tells that all pods which the owner runs at a time are in the gang. Where
	// others are elsewhere in the cluster, they know nothing of what is agreed on here.
	Whole bool
	// Annotations of the owner; a pod's own come first.
	Annotations map[string]string
	// PodLabels are labels that all pods of the gang have, by which missing ones
	// can be found; none where there are no such.
	PodLabels map[string]string
}

// Slot is one pod's place in a gang: its resources and its rank (the index in
// Gang.Slots). A slot outlives the pod in it.
type Slot struct {
	Role Role
	// Hosts are the pod's names, the shortest (its host name) first.
	Hosts []string
	Resources
	// Rides tells that the slot shares the first task of the allocation and
	// has no resources of its own.
	Rides bool
	// First tells that the slot's pod exists without any other pod being
	// ready first: nothing is submitted before all these are there.
	First bool
	// MPISlots is the number of processes the hostfile offers on this pod; 0
	// leaves the pod out of it.
	MPISlots int
}

// Role is a pod's place within its owner.
type Role struct {
	// Group is the replicated job's name; empty where the owner has but one
	// kind of pod.
	Group string
	// Job is the job's index within the group, Index the pod's within its job.
	Job, Index int
}

func (r Role) String() string {
	if r.Group == "" {
		return fmt.Sprintf("%d", r.Index)
	}
	return fmt.Sprintf("%s/%d/%d", r.Group, r.Job, r.Index)
}

// Names is where a gang lives: what keeps apart the allocations of two
// clusters, or of two virtual nodes, that share one workload manager.
type Names struct {
	Cluster string // UID of the kube-system namespace
	Node    string // the virtual node's name
}

// unsafe is what a DNS label cannot hold.
var unsafe = regexp.MustCompile(`[^a-z0-9-]+`)

// maxOwnerName leaves room for mark, hash and generation in 63 characters.
const maxOwnerName = 30

// AllocationName is the name of a gang's nth allocation (n from 1), in the
// spool and in the workload manager. It is a DNS label: the owner's name for
// people, the node's mark, a hash of what identifies the gang, and the generation. The nonce
// keeps apart gangs of one key that follow each other: a workload manager
// remembers ended jobs for a while.
func AllocationName(n Names, g Gang, generation int, nonce string) string {
	sum := sha256.Sum256([]byte(n.Cluster + "\x00" + n.Node + "\x00" + g.Key + "\x00" + nonce))
	name := unsafe.ReplaceAllString(strings.ToLower(g.OwnerName), "-")
	if len(name) > maxOwnerName {
		name = name[:maxOwnerName]
	}
	return fmt.Sprintf("%s-%s-%s-%d", cmp.Or(strings.Trim(name, "-"), "gang"), n.Mark(), hex.EncodeToString(sum[:5]), generation)
}

// Tasks returns, for each task of the allocation, the slots it serves: its own
// and, for the first task, those that ride.
func (g Gang) Tasks() [][]int {
	var tasks [][]int
	var riders []int
	for i, s := range g.Slots {
		if s.Rides {
			riders = append(riders, i)
			continue
		}
		tasks = append(tasks, []int{i})
	}
	if len(tasks) > 0 {
		tasks[0] = append(tasks[0], riders...)
	}
	return tasks
}

// TaskGroups are the runs of equal tasks in rank order.
func (g Gang) TaskGroups() []TaskGroup {
	var groups []TaskGroup
	for _, s := range g.Slots {
		if s.Rides {
			continue
		}
		if n := len(groups); n > 0 && groups[n-1].Resources == s.Resources {
			groups[n-1].Tasks++
			continue
		}
		groups = append(groups, TaskGroup{Tasks: 1, Resources: s.Resources})
	}
	return groups
}

// Missing returns the first slots that have no pod yet.
func (g Gang) Missing(bound func(slot int) bool) []int {
	var missing []int
	for i, s := range g.Slots {
		if s.First && !bound(i) {
			missing = append(missing, i)
		}
	}
	return missing
}

// SlotFor returns the slot of a pod with this role: its own where that is free,
// and otherwise, if there is no such slot or the Job runs in waves, a free one of
// the same job. It reports false where there is none.
func (g Gang) SlotFor(r Role, free func(slot int) bool) (int, bool) {
	other := -1
	for i, s := range g.Slots {
		if s.Role.Group != r.Group || s.Role.Job != r.Job {
			continue
		}
		if s.Role.Index == r.Index && (free(i) || !g.Waves) {
			return i, free(i)
		}
		if other < 0 && free(i) {
			other = i
		}
	}
	return other, other >= 0
}

// rideableCPUs is the most a slot may ask for and still ride: an MPI launcher
// that only waits.
const rideableCPUs = 1

// markRiders finds the slots that ride: the only pod of its group, without a
// device and with little CPU, beside slots that ask for more, and with no more memory
// than the task has that it shares: what a rider asks for is not asked for again. The
// override, where it is set for the group, decides instead; but a gang whose slots
// would all ride has nothing to ride on, and then none does.
func markRiders(slots []Slot, override map[string]bool) {
	size := map[string]int{}
	for _, s := range slots {
		size[s.Role.Group]++
	}
	bigger := func(than Slot) bool {
		for _, s := range slots {
			if s.Role.Group != than.Role.Group && (s.GPUs > 0 || s.CPUs > than.CPUs) {
				return true
			}
		}
		return false
	}
	rides := make([]bool, len(slots))
	for i, s := range slots {
		forced, set := override[s.Role.Group]
		rides[i] = forced
		if !set {
			rides[i] = size[s.Role.Group] == 1 && s.GPUs == 0 && s.Gres == "" && s.CPUs <= rideableCPUs && bigger(s)
		}
	}
	first := slices.Index(rides, false)
	if first < 0 {
		return
	}
	for i, s := range slots {
		if _, set := override[s.Role.Group]; !set && s.MemoryMiB > slots[first].MemoryMiB {
			rides[i] = false
		}
	}
	for i := range slots {
		if slots[i].Rides = rides[i]; rides[i] {
			slots[i].MPISlots = 0
		}
	}
}
