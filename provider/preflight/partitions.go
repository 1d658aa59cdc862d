package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/wlm"
)

const (
	workloadManager = "workload manager"
	checkVersion    = "version"
	checkPartition  = "partition"
)

// oldest is the first version of each workload manager that the project is tested with.
func oldest() map[string][2]int {
	return map[string][2]int{"slurm": {22, 5}}
}

var twoNumbers = regexp.MustCompile(`(\d+)\.(\d+)`)

// judgeVersion judges a name as wlm.Manager's Name gives it: "slurm 22.05.8".
func judgeVersion(name string) Line {
	kind, _, _ := strings.Cut(name, " ")
	least, known := oldest()[kind]
	m := twoNumbers.FindStringSubmatch(name)
	if !known || m == nil {
		return good(workloadManager, checkVersion, doctor.OK, "%s", name)
	}
	major, _ := strconv.Atoi(m[1]) // digits, as the pattern says
	minor, _ := strconv.Atoi(m[2])
	if major < least[0] || major == least[0] && minor < least[1] {
		return bad(workloadManager, checkVersion, doctor.Warn, "update it", "%s is older than the versions that are tested, from %d.%02d on", name, least[0], least[1])
	}
	return good(workloadManager, checkVersion, doctor.OK, "%s", name)
}

// Wanted is a partition that the configuration names, and where.
type Wanted struct {
	Partition string // empty for the workload manager's default
	By        string
}

// judgePartitions judges all that the configuration names.
func judgePartitions(inv wlm.Inventory, wanted []Wanted) []Line {
	var names []string
	for _, p := range inv.Partitions {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	var lines []Line
	told := map[string]bool{}
	for _, w := range wanted {
		if told[w.Partition] {
			continue
		}
		told[w.Partition] = true
		p := partition(inv, w.Partition)
		switch {
		case p == nil && w.Partition == "":
			lines = append(lines, bad(workloadManager, checkPartition, doctor.Fail, "set partition to one of: "+strings.Join(names, ", "),
				"%s names none, and the workload manager has no default", w.By))
		case p == nil:
			lines = append(lines, bad(workloadManager, checkPartition, doctor.Fail, "name one of: "+strings.Join(names, ", "),
				"there is no %q, which %s names", w.Partition, w.By))
		default:
			lines = append(lines, judgeNodes(*p))
		}
	}
	return lines
}

// partition finds one, the default if no name is given.
func partition(inv wlm.Inventory, name string) *wlm.Partition {
	i := slices.IndexFunc(inv.Partitions, func(p wlm.Partition) bool { return p.Name == name || name == "" && p.Default })
	if i < 0 {
		return nil
	}
	return &inv.Partitions[i]
}

func judgeNodes(p wlm.Partition) Line {
	usable, gpus := 0, 0
	var down []string
	for _, n := range p.Nodes {
		gpus += n.GPUs
		if n.Usable {
			usable++
		} else {
			down = append(down, n.Name+" "+n.State)
		}
	}
	text := fmt.Sprintf("%s: %d of %d nodes are usable, %d GPUs in all", p.Name, usable, len(p.Nodes), gpus)
	switch {
	case usable == 0:
		return bad(workloadManager, checkPartition, doctor.Fail, "bring nodes back (scontrol update nodename=... state=resume), or choose another partition", "%s: %s", text, some(down))
	case len(down) > 0:
		return bad(workloadManager, checkPartition, doctor.Warn, "bring them back, if they are meant to be there", "%s; not %s", text, some(down))
	}
	return good(workloadManager, checkPartition, doctor.OK, "%s", text)
}

// some are the first few of a list.
func some(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
