package preflight

import (
	"crypto/rand"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// size is how many nodes the job has, and how many GPUs on each.
func size(p wlm.Partition, o Options) (nodes, gpus int) {
	usable, withGPUs := 0, 0
	for _, n := range p.Nodes {
		if n.Usable {
			usable++
			if n.GPUs > 0 {
				withGPUs++
			}
		}
	}
	nodes, gpus = usable, o.GPUs
	if o.Nodes > 0 {
		nodes = min(o.Nodes, usable)
	}
	if o.OneNode {
		nodes = min(nodes, 1)
	}
	if gpus < 0 {
		gpus = 0
		if usable > 0 && withGPUs == usable {
			gpus = 1
		}
	}
	return nodes, gpus
}

// newGang is a gang of doctors. It has no cluster, so that no virtual node takes it for
// its own.
func newGang(tasks, gpus int) spool.Gang {
	g := spool.Gang{
		Version: spool.Version, Allocation: doctor.Prefix + strings.ToLower(rand.Text()[:12]), Key: "preflight", Generation: 1,
		Node: "preflight", Owner: "gangline-node preflight", Groups: 1,
	}
	for t := range tasks {
		name := "doctor-" + strconv.Itoa(t)
		g.Slots = append(g.Slots, spool.Slot{Index: t, Hostname: name, Hosts: []string{name}, CPUs: 1, GPUs: gpus, MemoryMiB: memoryMiB})
		g.Tasks = append(g.Tasks, []int{t})
	}
	return g
}

func (p *probe) request() translate.Request {
	r := translate.Request{
		Name: filepath.Base(string(p.dir)), User: p.who.User, Comment: "gangline: preflight", Agent: p.agent, Dir: string(p.dir),
		Groups: []translate.TaskGroup{{Tasks: p.tasks, Resources: translate.Resources{CPUs: 1, MemoryMiB: memoryMiB, GPUs: p.gpus}}},
		Wishes: translate.Wishes{Partition: p.who.Partition, Account: p.who.Account, QOS: p.who.QOS, TimeLimit: jobLimit},
	}
	if !p.options.OneNode {
		r.MinNodes, r.MaxNodes = p.tasks, p.tasks // so a task on each
	}
	return r
}
