package fluxtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gangline/gangline/flux"
)

// node is one simulated node with what is free of it.
type node struct {
	Node
	rank        int
	cores, gpus []int // free, in order
	drained     string
	down        bool
}

func newNode(rank int, n Node) *node {
	return &node{Node: n, rank: rank, cores: count(n.Cores), gpus: count(n.GPUs)}
}

func count(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// place is what a job has of a node.
type place struct {
	node        *node
	slots       int
	cores, gpus []int
}

func (p place) giveBack() {
	p.node.cores = append(p.node.cores, p.cores...)
	p.node.gpus = append(p.node.gpus, p.gpus...)
	slices.Sort(p.node.cores)
	slices.Sort(p.node.gpus)
}

func (n *node) allows(s shape) bool {
	if s.hosts != nil && !s.hosts[n.Name] {
		return false
	}
	for _, p := range s.properties {
		without, negated := strings.CutPrefix(p, "^")
		if slices.Contains(n.Properties, without) == negated {
			return false
		}
	}
	return true
}

// fits is how many slots a node has room for, as it is or as if it were empty.
func (n *node) fits(s shape, empty bool) int {
	cores, gpus := len(n.cores), len(n.gpus)
	if empty {
		cores, gpus = n.Cores, n.GPUs
	}
	if !empty && (n.drained != "" || n.down || s.exclusive && cores < n.Cores) || !n.allows(s) {
		return 0
	}
	fit := cores / s.cores
	if s.gpus > 0 {
		fit = min(fit, gpus/s.gpus)
	}
	return fit
}

// choose finds nodes and the slots on each, in the order of the ranks; false if there is no room.
func (b *Broker) choose(s shape, empty bool) ([]place, bool) {
	var places []place
	left := s.total()
	for _, n := range b.nodes {
		slots := min(n.fits(s, empty), left)
		if s.nodes > 0 {
			if slots < s.slots || len(places) == s.nodes {
				continue
			}
			slots = s.slots
		}
		if slots > 0 {
			left -= slots
			places = append(places, place{node: n, slots: slots})
		}
	}
	return places, left == 0
}

// take takes what a job has been given.
func (p *place) take(s shape) {
	n := p.node
	cores := p.slots * s.cores
	if s.exclusive {
		cores = n.Cores
	}
	p.cores, n.cores = slices.Clone(n.cores[:cores]), n.cores[cores:]
	gpus := p.slots * s.gpus
	if s.exclusive {
		gpus = len(n.gpus)
	}
	p.gpus, n.gpus = slices.Clone(n.gpus[:gpus]), n.gpus[gpus:]
}

// schedule starts what can start, first come first served within an urgency. The first
// that has no room holds up those behind it.
func (b *Broker) schedule() {
	if b.closed {
		return
	}
	waiting := slices.Clone(b.jobs)
	slices.SortStableFunc(waiting, func(x, y *job) int { return cmp.Compare(y.urgency, x.urgency) })
	blocked := false
	for _, j := range waiting {
		if j.state != flux.StateSched || j.urgency == flux.UrgencyHold {
			continue
		}
		if _, ever := b.choose(j.shape, true); !ever {
			j.fail("alloc", 0, fmt.Sprintf("unsatisfiable request: need %d slot(s) of %d core(s) and %d gpu(s)",
				j.shape.total(), j.shape.cores, j.shape.gpus))
			continue
		}
		places, now := b.choose(j.shape, false)
		if blocked = blocked || !now; blocked {
			continue
		}
		for i := range places {
			places[i].take(j.shape)
		}
		j.run(places)
	}
}

// depend moves on the jobs whose dependencies are fulfilled, and ends those whose can not
// be any more.
func (b *Broker) depend() {
	for _, j := range b.jobs {
		if j.state != flux.StateDepend {
			continue
		}
		waits, never := b.dependencies(j)
		switch {
		case never != "":
			j.fail("dependency", 0, never)
		case !waits:
			j.post("depend", nil)
			j.enter(flux.StatePriority)
			j.post("priority", map[string]int{"priority": j.urgency})
			j.enter(flux.StateSched)
		}
	}
}

func (b *Broker) dependencies(j *job) (waits bool, never string) {
	for _, d := range j.spec.Attributes.System.Dependencies {
		id, err := flux.ParseJobID(d.Value)
		other := b.find(id)
		if err != nil || other == nil {
			return false, fmt.Sprintf("dependency: %s: invalid job id %s", d.Scheme, d.Value)
		}
		over := other.state == flux.StateInactive
		good := over && other.result() == flux.Completed
		switch d.Scheme {
		case "after":
			waits = waits || !other.started && !over
		case "afterany":
			waits = waits || !over
		case "afterok", "afternotok":
			if over && good != (d.Scheme == "afterok") {
				return false, fmt.Sprintf("dependency: %s: job %s has ended in another way", d.Scheme, other.id)
			}
			waits = waits || !over
		default:
			return false, fmt.Sprintf("dependency scheme %q not supported", d.Scheme)
		}
	}
	return waits, ""
}

// Drain keeps a node from jobs; an empty reason gives it back.
func (b *Broker) Drain(name, reason string) {
	b.change(name, func(n *node) { n.drained = reason })
}

// SetDown makes a node unreachable, or reachable again. Its jobs are left alone.
func (b *Broker) SetDown(name string, down bool) {
	b.change(name, func(n *node) { n.down = down })
}

func (b *Broker) change(name string, f func(*node)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.nodes {
		if n.Name == name {
			f(n)
		}
	}
	b.schedule()
}

// resourceSet is an R. RFC 20.
type resourceSet struct {
	Version   int `json:"version"`
	Execution struct {
		RLite      []rLite           `json:"R_lite"`
		Start      float64           `json:"starttime"`
		Expiration float64           `json:"expiration"`
		NodeList   []string          `json:"nodelist"`
		Properties map[string]string `json:"properties,omitempty"`
	} `json:"execution"`
}

type rLite struct {
	Rank     string            `json:"rank"`
	Children map[string]string `json:"children"`
}

func newResourceSet(places []place) resourceSet {
	r := resourceSet{Version: 1}
	r.Execution.RLite, r.Execution.NodeList = []rLite{}, []string{}
	properties := map[string][]string{}
	for _, p := range places {
		rank := fmt.Sprint(p.node.rank)
		children := map[string]string{"core": idset(p.cores)}
		if len(p.gpus) > 0 {
			children["gpu"] = idset(p.gpus)
		}
		r.Execution.RLite = append(r.Execution.RLite, rLite{Rank: rank, Children: children})
		r.Execution.NodeList = append(r.Execution.NodeList, p.node.Name)
		for _, name := range p.node.Properties {
			properties[name] = append(properties[name], rank)
		}
	}
	for name, ranks := range properties {
		if r.Execution.Properties == nil {
			r.Execution.Properties = map[string]string{}
		}
		r.Execution.Properties[name] = strings.Join(ranks, ",")
	}
	return r
}

// idset writes a sorted set of ids: "0-1,3".
func idset(ids []int) string {
	var parts []string
	for i := 0; i < len(ids); {
		last := i
		for last+1 < len(ids) && ids[last+1] == ids[last]+1 {
			last++
		}
		if last == i {
			parts = append(parts, fmt.Sprint(ids[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[last]))
		}
		i = last + 1
	}
	return strings.Join(parts, ",")
}

func (b *Broker) all() []place {
	var places []place
	for _, n := range b.nodes {
		places = append(places, place{node: n, cores: count(n.Cores), gpus: count(n.GPUs)})
	}
	return places
}

func (b *Broker) resourceStatus([]byte) (any, error) {
	drain := map[string]any{}
	var online, offline []int
	for _, n := range b.nodes {
		if n.drained != "" {
			drain[fmt.Sprint(n.rank)] = map[string]any{"timestamp": seconds(time.Now()), "reason": n.drained}
		}
		if n.down {
			offline = append(offline, n.rank)
		} else {
			online = append(online, n.rank)
		}
	}
	return map[string]any{
		"R": newResourceSet(b.all()), "drain": drain,
		"online": idset(online), "offline": idset(offline), "exclude": "", "torpid": "",
	}, nil
}

func (b *Broker) schedStatus([]byte) (any, error) {
	var down, allocated []place
	for _, p := range b.all() {
		if p.node.down || p.node.drained != "" {
			down = append(down, p)
		}
	}
	for _, n := range b.nodes {
		p := place{node: n}
		for _, j := range b.jobs {
			if j.state&flux.StatesRunning == 0 || j.finished {
				continue
			}
			for _, held := range j.places {
				if held.node == n {
					p.cores, p.gpus = append(p.cores, held.cores...), append(p.gpus, held.gpus...)
				}
			}
		}
		if slices.Sort(p.cores); len(p.cores) > 0 {
			slices.Sort(p.gpus)
			allocated = append(allocated, p)
		}
	}
	return map[string]json.RawMessage{
		"all": marshaled(newResourceSet(b.all())), "down": marshaled(newResourceSet(down)),
		"allocated": marshaled(newResourceSet(allocated)),
	}, nil
}

func marshaled(r resourceSet) json.RawMessage {
	text, err := json.Marshal(r)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}
