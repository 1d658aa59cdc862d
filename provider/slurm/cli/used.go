package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// usedFormat gives a line per node and partition with what jobs use of the node,
// whoever's they are: node, CPUs as allocated/idle/other/total, MiB allocated, generic
// resources. The list of jobs would not do: a site may keep others' jobs from view
// (PrivateData). Fields are padded. Source: sinfo(1), --Format.
const usedFormat = "NodeList:256" + fieldSeparator + ",CPUsState:64" + fieldSeparator + ",AllocMem:32" + fieldSeparator + ",GresUsed:1024"

// parseUsed reads what is used of each node.
func parseUsed(out string) (map[string]translate.Resources, error) {
	used := map[string]translate.Resources{}
	for line := range strings.Lines(out) {
		const fields = 4
		f := strings.Split(strings.TrimSuffix(line, "\n"), fieldSeparator)
		if len(f) != fields {
			return nil, fmt.Errorf("reading sinfo's list of what is used: %q has %d fields, not %d", line, len(f), fields)
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		allocated, _, _ := strings.Cut(f[1], "/")
		cpus, err := strconv.Atoi(allocated)
		if err != nil {
			return nil, fmt.Errorf("reading sinfo's list of what is used: node %s: %q is no count of CPUs", f[0], f[1])
		}
		memory, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading sinfo's list of what is used: node %s: %q is no number of MiB", f[0], f[2])
		}
		gres := translate.ParseGres(f[3])
		used[f[0]] = translate.Resources{CPUs: cpus, MemoryMiB: memory, GPUs: gres.Count("gpu"), Gres: gres}
	}
	return used, nil
}

// addSwitches adds the nodes' leaf switches, where Slurm knows of any: they are good to
// know, and nothing depends on them.
func (m *Manager) addSwitches(ctx context.Context, at *session, inv wlm.Inventory) {
	if at.tools["scontrol"] == "" {
		return
	}
	a := m.run(ctx, at, call{tool: "scontrol", env: at.env, args: []string{"show", "topology"}})
	if a.err != nil {
		return // as it says where there is no topology
	}
	leaves, err := slurm.LeafSwitches(a.stdout)
	if err != nil {
		m.cfg.Log.Info("the topology is left out", "error", err)
		return
	}
	for _, p := range inv.Partitions {
		for i := range p.Nodes {
			p.Nodes[i].Switch = leaves[p.Nodes[i].Name]
		}
	}
}

// addUsed adds what is used to an inventory.
func addUsed(inv wlm.Inventory, used map[string]translate.Resources) {
	for _, p := range inv.Partitions {
		for i := range p.Nodes {
			p.Nodes[i].Used = used[p.Nodes[i].Name]
		}
	}
}
