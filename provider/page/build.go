package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate/wellknown"
)

const (
	// maxGangs bounds the list, and maxMessage a message, in bytes.
	maxGangs   = 1000
	maxMessage = 300
)

// Build is what is shown of a state at a moment, of one namespace or, if that is empty,
// of all.
func Build(s State, namespace string, now time.Time) View {
	v := View{
		Node: s.Node, Cluster: s.Cluster, Manager: s.Manager, At: now.UTC().Truncate(time.Second), Listed: s.Listed.UTC().Truncate(time.Second), Trouble: s.Trouble,
		Namespaces: []string{}, Nodes: []Host{}, Gangs: []Item{},
	}
	for _, g := range s.Gangs {
		item := build(g)
		if !slices.Contains(v.Namespaces, item.Namespace) {
			v.Namespaces = append(v.Namespaces, item.Namespace)
		}
		v.Gangs = append(v.Gangs, item)
	}
	slices.Sort(v.Namespaces)
	queue(v.Gangs)
	v.Gangs = slices.DeleteFunc(v.Gangs, func(i Item) bool { return namespace != "" && i.Namespace != namespace })
	slices.SortFunc(v.Gangs, order)
	if s.Partition != nil {
		v.Partition = s.Partition.Name
		v.Nodes = hosts(*s.Partition, v.Gangs)
	}
	if v.Omitted = max(len(v.Gangs)-maxGangs, 0); v.Omitted > 0 {
		v.Gangs = v.Gangs[:maxGangs]
	}
	return v
}

// order puts what happens now before what waits, and that before what is over.
func order(a, b Item) int {
	rank := func(s Stage) int {
		return slices.Index([]Stage{Draining, Running, Starting, Queued, Submitting, Forming, Ended}, s)
	}
	return cmp.Or(cmp.Compare(rank(a.Stage), rank(b.Stage)), cmp.Compare(a.Place, b.Place), begin(b).Compare(begin(a)), cmp.Compare(a.ID, b.ID))
}

func begin(i Item) time.Time {
	if len(i.Timeline) == 0 {
		return time.Time{}
	}
	return i.Timeline[0].From
}

// queue gives the gangs that wait their places: as the workload manager expects them to
// start and, where it does not say, as they were submitted.
func queue(items []Item) {
	var waiting []*Item
	for i := range items {
		if items[i].Stage == Queued {
			waiting = append(waiting, &items[i])
		}
	}
	never := time.Unix(1<<40, 0)
	expected := func(i *Item) time.Time {
		if i.Job == nil || i.Job.ExpectedStart.IsZero() {
			return never
		}
		return i.Job.ExpectedStart
	}
	slices.SortStableFunc(waiting, func(a, b *Item) int {
		return cmp.Or(expected(a).Compare(expected(b)), submitted(*a).Compare(submitted(*b)), cmp.Compare(a.ID, b.ID))
	})
	for i, item := range waiting {
		item.Place, item.Of = i+1, len(waiting)
	}
}

// submitted is when a gang began to wait in the workload manager's queue.
func submitted(i Item) time.Time {
	for _, s := range i.Timeline {
		if s.Stage == Queued {
			return s.From
		}
	}
	return time.Time{}
}

func build(g Gang) Item {
	item := Item{ID: g.Key, Stage: stage(g), Slots: slots(g), Timeline: timeline(g)}
	for _, p := range g.Pods {
		item.Namespace = cmp.Or(item.Namespace, p.Namespace)
		item.Owner = cmp.Or(item.Owner, ownerOf(p.Pod))
	}
	a := g.Allocation
	if a == nil || a.Ended != nil && item.Stage == Forming { // it forms anew
		item.Reason = waiting(g.Pods)
		return item
	}
	item.Namespace, item.Owner, item.User, item.Generation = a.Namespace, a.Owner, a.User, a.Generation
	if a.Submitted != nil {
		item.Job = &Job{ID: a.Submitted.ID}
	}
	if item.Job != nil && a.Job != nil {
		item.Job.State, item.Job.Nodes = a.Job.State, a.Job.Nodes
		item.Job.LimitEnd = a.Job.LimitEnd.UTC()
		if a.Job.Phase == wlm.PhaseQueued {
			item.Job.ExpectedStart = a.Job.ExpectedStart.UTC()
		}
	}
	switch {
	case a.Ended != nil:
		item.Reason = shorten(joined(a.Ended.Outcome, a.Ended.Message))
	case item.Stage == Queued && a.Job != nil:
		item.Reason = shorten(joined(a.Job.Reason, a.Job.Explanation))
	case item.Stage != Running:
		item.Reason = waiting(g.Pods)
	}
	return item
}

// ownerOf is a gang's owner in words where no allocation says it.
func ownerOf(p *corev1.Pod) string {
	for _, o := range p.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return o.Kind + " " + p.Namespace + "/" + o.Name
		}
	}
	return "Pod " + p.Namespace + "/" + p.Name
}

// waiting is what a pod that is not over says it waits for.
func waiting(pods []Pod) string {
	for _, p := range pods {
		if p.Status.Message != "" && p.Status.Phase != corev1.PodSucceeded {
			return shorten(joined(p.Status.Reason, p.Status.Message))
		}
	}
	return ""
}

func joined(word, sentence string) string {
	if word == "" || sentence == "" {
		return word + sentence
	}
	return word + ": " + sentence
}

func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

func live(p Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// stage is where a gang is in its life.
func stage(g Gang) Stage {
	a := g.Allocation
	switch someLive := slices.ContainsFunc(g.Pods, live); {
	case a == nil, a.Ended != nil && someLive:
		return Forming
	case a.Ended != nil:
		return Ended
	case a.Submitted == nil:
		return Submitting
	case a.Job != nil && (a.Job.Phase == wlm.PhaseEnding || a.Job.Phase == wlm.PhaseEnded):
		return Draining
	case reported(a.Reports) && !someLive:
		return Draining
	case reported(a.Reports):
		return Running
	case a.Job == nil || a.Job.Phase == wlm.PhaseQueued:
		return Queued
	}
	return Starting
}

// reported tells whether all agents are there.
func reported(reports []spool.Status) bool {
	return len(reports) > 0 && !slices.ContainsFunc(reports, func(s spool.Status) bool { return s.Agent.Instance == "" })
}

// slots are the allocation's slots with their pods, and the pods that have none yet.
func slots(g Gang) []Slot {
	list := []Slot{}
	a := g.Allocation
	if a == nil {
		for _, p := range g.Pods {
			list = append(list, withPod(Slot{Slot: -1}, p))
		}
		return list
	}
	newest := map[int]*Pod{}
	for i, p := range g.Pods {
		if had := newest[p.Slot]; had == nil || had.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest[p.Slot] = &g.Pods[i]
		}
	}
	for k := range a.Slots {
		s := &a.Slots[k] // its gang writes the Rendezvous meanwhile
		slot := Slot{Slot: k, CPUs: s.CPUs, GPUs: s.GPUs}
		if k < len(a.Reports) {
			slot.Node = a.Reports[k].Agent.Node
		}
		if p := newest[k]; p != nil {
			slot = withPod(slot, *p)
		}
		list = append(list, slot)
	}
	for _, p := range g.Pods {
		if p.Slot < 0 && live(p) {
			list = append(list, withPod(Slot{Slot: -1}, p))
		}
	}
	return list
}

func withPod(s Slot, p Pod) Slot {
	s.Pod, s.Phase = p.Name, string(p.Status.Phase)
	s.Node = cmp.Or(s.Node, p.Annotations[wellknown.AnnotationHPCNode])
	s.Message = shorten(cmp.Or(p.Status.Message, containerMessage(p.Status)))
	for _, c := range p.Status.ContainerStatuses {
		s.Restarts += int(c.RestartCount)
	}
	return s
}

// containerMessage is the first thing that a container says of itself.
func containerMessage(s corev1.PodStatus) string {
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Message != "":
			return c.State.Waiting.Message
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return joined(c.State.Terminated.Reason, c.State.Terminated.Message)
		}
	}
	return ""
}

// hosts are a partition's nodes with the gangs' slots.
func hosts(p wlm.Partition, items []Item) []Host {
	list := make([]Host, len(p.Nodes))
	at := map[string]int{}
	for i, n := range p.Nodes {
		at[n.Name] = i
		list[i] = Host{Name: n.Name, State: n.State, Usable: n.Usable, CPUs: n.CPUs, GPUs: n.GPUs, MemoryMiB: n.MemoryMiB, Slots: []Place{}}
		list[i].Others = Amount{CPUs: n.Used.CPUs, GPUs: n.Used.GPUs}
	}
	for _, item := range items {
		if item.Stage == Ended || item.Stage == Forming {
			continue
		}
		for _, s := range item.Slots {
			i, known := at[s.Node]
			if !known {
				continue
			}
			h := &list[i]
			h.Slots = append(h.Slots, Place{Gang: item.ID, Slot: s.Slot, Pod: s.Pod, CPUs: s.CPUs, GPUs: s.GPUs})
			if h.State == "idle" {
				h.State = "in use" // what agents report is newer than the inventory
			}
			h.Others.CPUs, h.Others.GPUs = max(h.Others.CPUs-s.CPUs, 0), max(h.Others.GPUs-s.GPUs, 0)
		}
	}
	return list
}
