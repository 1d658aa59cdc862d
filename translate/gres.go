package translate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Gres is a list of generic resources in one form, so that equal ones are equal:
// "gpu:h100:2,shard:4", sorted. It is written as Slurm writes them, name:count or
// name:type:count (slurm.conf(5), Gres).
type Gres string

// ParseGres reads what Slurm says of a node, such as "gpu:h100:8(S:0-1),nic:2" or
// "gpu:h100:2(IDX:0-1)". A count that is not given is one, Slurm's own default; one
// that is no number is one too.
func ParseGres(text string) Gres {
	total := map[string]int{}
	for _, entry := range splitGres(text) {
		entry, _, _ = strings.Cut(entry, "(")
		if entry == "" {
			continue
		}
		kind, count := entry, 1
		if i := strings.LastIndex(entry, ":"); i >= 0 {
			if n, ok := gresCount(entry[i+1:]); ok {
				kind, count = entry[:i], n
			}
		}
		total[strings.TrimSuffix(kind, ":no_consume")] += count
	}
	return gresOf(total)
}

// splitGres splits at the commas that separate resources; in brackets they separate
// sockets or indexes.
func splitGres(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(0, depth-1) // one that closes nothing joins nothing
		}
		return r == ',' && depth == 0
	})
}

// gresCount reads "8", and "2K" as Slurm shortens it.
func gresCount(s string) (int, bool) {
	unit := 1
	for i, suffix := range []string{"K", "M", "G"} {
		if short, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok && short != "" {
			s, unit = short, 1<<(10*(i+1))
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, false
	}
	return min(n, mostUnits/unit) * unit, true
}

func gresOf(total map[string]int) Gres {
	var entries []string
	for _, kind := range sortedKeys(total) {
		if total[kind] > 0 && kind != "" {
			entries = append(entries, fmt.Sprintf("%s:%d", kind, min(total[kind], mostUnits)))
		}
	}
	return Gres(strings.Join(entries, ","))
}

// Counts are the counts by kind: "gpu:h100" or "shard".
func (g Gres) Counts() map[string]int {
	counts := map[string]int{}
	for _, entry := range strings.FieldsFunc(string(g), func(r rune) bool { return r == ',' }) {
		i := strings.LastIndex(entry, ":")
		if n, err := strconv.Atoi(entry[i+1:]); i > 0 && err == nil {
			counts[entry[:i]] += n
		}
	}
	return counts
}

// Count is how many there are of a kind; a name alone counts all of its types.
func (g Gres) Count(kind string) int {
	n := 0
	for of, count := range g.Counts() {
		if of == kind || strings.HasPrefix(of, kind+":") {
			n += count
		}
	}
	return n
}

func (g Gres) total() int {
	n := 0
	for _, count := range g.Counts() {
		n += count
	}
	return n
}

// Less is g without what others have, of each kind as far as there is some. What is
// taken of any type ("gpu") is not told from which type.
func (g Gres) Less(others Gres) Gres {
	counts := g.Counts()
	for kind, n := range others.Counts() {
		counts[kind] -= n
	}
	return gresOf(counts)
}

// Plus is g and n more of a kind.
func (g Gres) Plus(kind string, n int) Gres {
	counts := g.Counts()
	counts[kind] += n
	return gresOf(counts)
}

// Split parts the GPUs, by type alone as Slurm's options for GPUs take them
// ("h100:2"), from all else, as --gres takes it.
func (g Gres) Split() (gpuTypes, others Gres) {
	counts := g.Counts()
	gpus := map[string]int{}
	for kind, n := range counts {
		if name, of, ok := strings.Cut(kind, ":"); ok && name == gpuGres {
			gpus[of] = n
			delete(counts, kind)
		}
	}
	return gresOf(gpus), gresOf(counts)
}

// gpuGres is Slurm's name for GPUs.
const gpuGres = "gpu"

// gresKindPattern is a kind of generic resources: a name, or a name and a type.
var gresKindPattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63})?$`)

// DeviceResources maps extended resources of Kubernetes to kinds of generic
// resources of the workload manager: {"amd.com/gpu": "gpu:mi300"}. What stands for
// EveryNode is not asked for: {"rdma/hca_shared_devices_a": "every-node"}.
type DeviceResources map[corev1.ResourceName]string

// EveryNode is the kind of what all HPC nodes have, and as many pods as there are may use
// at once. No generic resource is called so: their names have no dash.
const EveryNode = "every-node"

// Problems are what is wrong with the map, a sentence each.
func (d DeviceResources) Problems() []string {
	var problems []string
	for _, name := range sortedKeys(d) {
		if d[name] != EveryNode && !gresKindPattern.MatchString(d[name]) {
			problems = append(problems, fmt.Sprintf("resources: %s: %q is no generic resource; write a name, or name:type, as in \"gpu:h100\", or %s for what all HPC nodes have",
				name, d[name], EveryNode))
		}
		if !strings.Contains(string(name), "/") || strings.HasPrefix(string(name), "kubernetes.io/") {
			problems = append(problems, fmt.Sprintf("resources: %s is no extended resource; its name has a domain, as in \"amd.com/gpu\"", name))
		}
	}
	return problems
}

// All are the map's entries and, unless it has one, the resource of GPUs of any type.
func (d DeviceResources) All(gpu corev1.ResourceName) DeviceResources {
	all := DeviceResources{gpuResource(gpu): gpuGres}
	for name, kind := range d {
		all[name] = kind
	}
	return all
}

// AskFor tells whether any of the resources is one to ask the workload manager for.
func (d DeviceResources) AskFor() bool {
	for _, kind := range d {
		if kind != EveryNode {
			return true
		}
	}
	return false
}

// knows tells whether the workload manager can give what a resource stands for.
func (d DeviceResources) knows(gpu, name corev1.ResourceName) bool {
	_, known := d.All(gpu)[name]
	return known
}

// devices are the GPUs, of any type, and the generic resources beside those that
// name no type, of what a pod requests.
func (d DeviceResources) devices(gpu corev1.ResourceName, requests corev1.ResourceList) (gpus int, gres Gres) {
	for name, kind := range d.All(gpu) {
		n := int(whole(requests[name], mostUnits))
		if n == 0 || kind == EveryNode {
			continue
		}
		if kind == gpuGres || strings.HasPrefix(kind, gpuGres+":") {
			gpus += n
		}
		if kind != gpuGres {
			gres = gres.Plus(kind, n)
		}
	}
	return gpus, gres
}
