package slurm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gangline/gangline/provider/wlm"
)

// sinfoFormat gives a line per node and partition: the partition with its mark
// of the default one, the partition's state, node, CPUs, MiB, the node's state,
// generic resources. Source: sinfo(1), --format.
const sinfoFormat = "%P" + fieldSeparator + "%a" + fieldSeparator + "%N" + fieldSeparator + "%c" + fieldSeparator + "%m" +
	fieldSeparator + "%T" + fieldSeparator + "%G"

// parseInventory reads sinfo's output; partitions and nodes keep its order.
func parseInventory(out string) (wlm.Inventory, error) {
	var inv wlm.Inventory
	for line := range strings.Lines(out) {
		const fields = 7
		f := strings.Split(strings.TrimSuffix(line, "\n"), fieldSeparator)
		if len(f) != fields {
			return wlm.Inventory{}, fmt.Errorf("reading sinfo's list: %q has %d fields, not %d", line, len(f), fields)
		}
		if f[2] == "" { // a partition without nodes
			continue
		}
		node, err := parseNode(f[2], f[3], f[4], f[5], f[6])
		if err != nil {
			return wlm.Inventory{}, fmt.Errorf("reading sinfo's list: %w", err)
		}
		node.Usable = node.Usable && f[1] == "up"
		name, isDefault := strings.CutSuffix(f[0], "*")
		i := slices.IndexFunc(inv.Partitions, func(p wlm.Partition) bool { return p.Name == name })
		if i < 0 {
			i = len(inv.Partitions)
			inv.Partitions = append(inv.Partitions, wlm.Partition{Name: name, Default: isDefault})
		}
		inv.Partitions[i].Nodes = append(inv.Partitions[i].Nodes, node)
	}
	return inv, nil
}

func parseNode(name, cpus, memory, state, gres string) (wlm.Node, error) {
	n := wlm.Node{Name: name, State: state, GPUs: gpus(gres)}
	var err error
	if n.CPUs, err = strconv.Atoi(cpus); err != nil {
		return wlm.Node{}, fmt.Errorf("node %s: %q is no number of CPUs", name, cpus)
	}
	if n.MemoryMiB, err = strconv.ParseInt(memory, 10, 64); err != nil {
		return wlm.Node{}, fmt.Errorf("node %s: %q is no number of MiB", name, memory)
	}
	word := strings.TrimRightFunc(state, func(r rune) bool { return !unicode.IsLetter(r) })
	n.Usable = nodeUsable(word)
	for _, suffix := range state[len(word):] {
		n.Usable = n.Usable && suffixUsable(suffix)
	}
	return n, nil
}

// gpus counts the GPUs in a node's generic resources, such as
// "gpu:h100:8(S:0-1),nic:2": of all types, wherever they sit.
func gpus(gres string) int {
	total, depth := 0, 0
	entries := strings.FieldsFunc(gres, func(r rune) bool {
		switch r { // commas in brackets separate sockets, not resources
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth == 0
	})
	for _, entry := range entries {
		entry, _, _ = strings.Cut(entry, "(")
		parts := strings.Split(entry, ":")
		if parts[0] != "gpu" {
			continue
		}
		count, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			count = 1 // Slurm's default, where a count is not given
		}
		total += count
	}
	return total
}
