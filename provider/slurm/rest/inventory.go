package rest

import (
	"context"
	"slices"
	"strings"

	"github.com/gangline/gangline/provider/slurm"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

type nodesAnswer struct {
	answer
	Nodes []nodeInfo `json:"nodes"`
}

type nodeInfo struct {
	Name       string   `json:"name"`
	CPUs       number   `json:"cpus"`
	MemoryMiB  number   `json:"real_memory"`
	GRES       string   `json:"gres"`
	State      list     `json:"state"`
	Flags      []string `json:"state_flags"` // v0.0.38; later ones have all in the state
	Partitions []string `json:"partitions"`
	// What jobs have of it, whoever's they are.
	UsedCPUs      number `json:"alloc_cpus"`
	UsedMemoryMiB number `json:"alloc_memory"`
	UsedGRES      string `json:"gres_used"`
	// Features is a list from v0.0.40 on, and one text before.
	Features list `json:"active_features"`
}

type partitionsAnswer struct {
	answer
	Partitions []partitionInfo `json:"partitions"`
}

type partitionInfo struct {
	Name  string   `json:"name"`
	Flags []string `json:"flags"` // v0.0.38 and from v0.0.45 on: in between nobody tells which is the default
	State string   `json:"state"` // v0.0.38
	Later struct {
		State list `json:"state"` // from v0.0.40 on
	} `json:"partition"`
}

// Inventory implements wlm.Manager. A partition that takes no jobs has no usable node.
func (m *Manager) Inventory(ctx context.Context) (wlm.Inventory, error) {
	var nodes nodesAnswer
	if err := m.ask(ctx, "/nodes/", &nodes); err != nil {
		return wlm.Inventory{}, err
	}
	var partitions partitionsAnswer
	if err := m.ask(ctx, "/partitions/", &partitions); err != nil {
		return wlm.Inventory{}, err
	}
	return inventoryOf(nodes.Nodes, partitions.Partitions), nil
}

func inventoryOf(nodes []nodeInfo, partitions []partitionInfo) wlm.Inventory {
	var inv wlm.Inventory
	for _, p := range partitions {
		partition := wlm.Partition{Name: p.Name, Default: slices.ContainsFunc(p.Flags, isDefault)}
		for _, n := range nodes {
			if !slices.Contains(n.Partitions, p.Name) {
				continue
			}
			node := n.node()
			node.Usable = node.Usable && p.up()
			partition.Nodes = append(partition.Nodes, node)
		}
		if len(partition.Nodes) > 0 {
			inv.Partitions = append(inv.Partitions, partition)
		}
	}
	return inv
}

func isDefault(flag string) bool { return strings.EqualFold(flag, "default") }

// up tells whether the partition takes and starts jobs; v0.0.39 does not tell, and so
// it counts as up.
func (p partitionInfo) up() bool {
	states := p.Later.State
	if p.State != "" {
		states = list{p.State}
	}
	return !slices.ContainsFunc(states, func(s string) bool { return s != "UP" })
}

func (n nodeInfo) node() wlm.Node {
	used := translate.ParseGres(n.UsedGRES)
	words := append(slices.Clone(n.State), n.Flags...)
	return wlm.Node{
		Name: n.Name, CPUs: int(n.CPUs.value), MemoryMiB: n.MemoryMiB.value, GPUs: slurm.GPUs(n.GRES),
		Gres: translate.ParseGres(n.GRES), Features: slurm.Features(strings.Join(n.Features, ",")),
		Used: translate.Resources{
			CPUs: int(n.UsedCPUs.value), MemoryMiB: n.UsedMemoryMiB.value, GPUs: used.Count("gpu"), Gres: used,
		},
		State: strings.ToLower(strings.Join(words, "+")), Usable: slurm.NodeUsable(words...),
	}
}
