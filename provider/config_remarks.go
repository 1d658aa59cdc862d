package provider

import (
	"fmt"
	"slices"
	"strings"
)

// Remarks are what a valid configuration says that may not be what was meant. me is the
// user who asks, and as whom the node may run.
func (c Config) Remarks(me string) []string {
	return slices.Concat(c.foreignUsers(me), c.unmetPartitions())
}

// foreignUsers are rules whose user the mode own cannot be.
func (c Config) foreignUsers(me string) []string {
	if c.others() {
		return nil
	}
	var all []string
	told := map[string]bool{}
	for i, rule := range c.Identity {
		if told[rule.User] {
			continue
		}
		told[rule.User] = true
		switch {
		case rule.User == "" || rule.User == me:
		case strings.Contains(rule.User, "{"):
			all = append(all, fmt.Sprintf("identity[%d].user is %s: the access mode own acts as the user of gangline-node only, and refuses the pods of all other users; for several choose setuid, sudo or ssh", i, rule.User))
		default:
			all = append(all, fmt.Sprintf("identity[%d].user is %s, and this is checked as %s: the access mode own acts as the user of gangline-node only; run it as %s, or choose setuid, sudo or ssh", i, rule.User, me, rule.User))
		}
	}
	return all
}

// unmetPartitions are lists of partitions without one that pods get that name none.
func (c Config) unmetPartitions() []string {
	var all []string
	if c.Partition == "" && len(c.Partitions) > 0 {
		all = append(all, fmt.Sprintf("partitions has %s, and partition is missing: pods that name none go to the workload manager's default, whose capacity is the node's; name it",
			strings.Join(c.Partitions, ", ")))
	}
	if c.Partition != "" && len(c.Partitions) > 0 && !slices.Contains(c.Partitions, c.Partition) {
		all = append(all, fmt.Sprintf("partition is %s, which is not among partitions: pods may not name it, and go there when they name none", c.Partition))
	}
	for i, rule := range c.Identity {
		for _, n := range c.each() {
			if rule.Partition == "" && len(rule.Partitions) > 0 && !slices.Contains(rule.Partitions, n.Partition) {
				all = append(all, fmt.Sprintf("identity[%d].partitions lacks the partition %q of the virtual node %s, and the rule has no partition: pods there that name none go to %s, while the node shows the capacity of its own",
					i, n.Partition, n.NodeName, rule.Partitions[0]))
			}
		}
	}
	return all
}
