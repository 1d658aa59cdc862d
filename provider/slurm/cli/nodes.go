package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// sinfoFormat gives a line per node and partition: the partition with its mark
// of the default one, the partition's state, node, CPUs, MiB, the node's state,
// generic resources, active features. Source: sinfo(1), --format.
const sinfoFormat = "%P" + fieldSeparator + "%a" + fieldSeparator + "%N" + fieldSeparator + "%c" + fieldSeparator + "%m" +
	fieldSeparator + "%T" + fieldSeparator + "%G" + fieldSeparator + "%b"

// parseInventory reads sinfo's output; partitions and nodes keep its order.
func parseInventory(out string) (wlm.Inventory, error) {
	var inv wlm.Inventory
	for line := range strings.Lines(out) {
		const fields = 8
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
		node.Features = slurm.Features(f[7])
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
	n := wlm.Node{Name: name, State: state, GPUs: slurm.GPUs(gres), Gres: translate.ParseGres(gres)}
	var err error
	if n.CPUs, err = parseCPUs(cpus); err != nil {
		return wlm.Node{}, fmt.Errorf("node %s: %q is no number of CPUs", name, cpus)
	}
	if n.MemoryMiB, err = strconv.ParseInt(memory, 10, 64); err != nil {
		return wlm.Node{}, fmt.Errorf("node %s: %q is no number of MiB", name, memory)
	}
	word := strings.TrimRightFunc(state, func(r rune) bool { return !unicode.IsLetter(r) })
	n.Usable = slurm.NodeUsable(word)
	for _, suffix := range state[len(word):] {
		n.Usable = n.Usable && suffixUsable(suffix)
	}
	return n, nil
}

// parseCPUs reads a number as sinfo prints it: 1024 as "1K" and 1280 as "1.25K".
func parseCPUs(text string) (int, error) {
	thousands, ok := strings.CutSuffix(text, "K")
	if !ok {
		return strconv.Atoi(text)
	}
	const most = 1 << 20 // more than a node has, and no number overflows
	n, err := strconv.ParseFloat(thousands, 64)
	if err != nil || !(n >= 0 && n <= most) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return int(n * 1024), nil
}

// suffixUsable tells the same of the suffixes of a node's state as NodeUsable of its
// words: '*' does not respond, '$' is in a maintenance reservation. The others are about
// power and plans ("~#!%@^-+"): such a node can be had, if not at once.
func suffixUsable(suffix rune) bool { return suffix != '*' && suffix != '$' }
