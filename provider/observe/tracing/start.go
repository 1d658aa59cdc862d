package tracing

import (
	"cmp"
	"slices"
	"time"
)

// Start is one start of a gang. Times are zero where they are not known; those of agents
// and of the workload manager are by other clocks.
type Start struct {
	// Gang is the gang's key, Owner whose it is ("JobSet default/pi").
	Gang, Owner, Namespace string
	Allocation, Job        string
	// VirtualNode is the node of Kubernetes that the gang is on.
	VirtualNode string
	Slots       int
	// Complete is when the gang had all its pods, Submitted when the workload manager had
	// taken its job, Begun when that was given its nodes, Reported when all agents were
	// there.
	Complete, Submitted, Begun, Reported time.Time
	Agents                               []Agent
	Pods                                 []Pod
	// Failure is why the start came to nothing; empty for one that succeeded.
	Failure string
	// Over is when it was over for a pod that never ran.
	Over time.Time
}

// Agent is the start of a slot's agent.
type Agent struct {
	Slot    int
	Node    string // the HPC node
	Started time.Time
}

// Pod is a pod's part in it.
type Pod struct {
	Name, UID string
	Slot      int
	Node      string // the HPC node
	// Seen is when it was bound, Ordered when its agent was given it, Running when the
	// API server had its first status that is not Pending.
	Seen, Ordered, Running time.Time
	// Taken is when the agent read its orders, Started when the first container ran,
	// Told when the agent wrote that the pod runs.
	Taken, Started, Told time.Time
	InitContainers       []Run
}

// Run is a container's.
type Run struct {
	Container     string
	From, To      time.Time
	ExitCode      int32
	RestartsSoFar int32
}

// service is whose span it is.
type service int

const (
	node service = iota
	agent
	services // how many there are
)

// span is a span to be sent, with those that it holds.
type span struct {
	name       string
	of         service
	from, to   time.Time
	attributes map[string]any // strings and ints
	failure    string
	within     []span
}

// spans are a start's, as one tree. It reports false where nothing is known of it.
func spans(s Start) (span, bool) {
	root := span{name: "start gang", of: node, failure: s.Failure, attributes: map[string]any{
		"gangline.gang": s.Gang, "gangline.owner": s.Owner, "k8s.namespace.name": s.Namespace,
		"gangline.allocation": s.Allocation, "gangline.job": s.Job, "gangline.slots": s.Slots, "k8s.node.name": s.VirtualNode,
	}}
	for _, p := range s.Pods {
		root.from, root.to = earlier(root.from, p.Seen), later(root.to, cmp.Or(p.Running, s.Over))
	}
	if root.from.IsZero() || root.to.IsZero() {
		return span{}, false
	}
	begun := s.Begun
	if !begun.IsZero() {
		begun = later(begun, s.Submitted) // it may be in whole seconds
	}
	for _, a := range s.Agents {
		begun = earlier(begun, a.Started)
	}
	root.holdPhase(span{name: "form gang", of: node, from: root.from, to: s.Complete})
	root.holdPhase(span{name: "submit", of: node, from: s.Complete, to: s.Submitted})
	root.holdPhase(span{name: "queue", of: node, from: s.Submitted, to: begun})
	start := span{name: "start agents", of: node, from: begun, to: s.Reported}
	for _, a := range s.Agents {
		start.hold(span{name: "start agent", of: agent, from: begun, to: a.Started, attributes: map[string]any{
			"gangline.slot": a.Slot, "host.name": bounded(a.Node),
		}})
	}
	root.holdPhase(start)
	for _, p := range s.Pods {
		root.hold(podSpan(s, p))
	}
	return root, true
}

func podSpan(s Start, p Pod) span {
	about := map[string]any{
		"k8s.namespace.name": s.Namespace, "k8s.pod.name": p.Name, "k8s.pod.uid": p.UID,
		"gangline.slot": p.Slot, "host.name": bounded(p.Node),
	}
	pod := span{name: "start pod", of: node, from: p.Seen, to: cmp.Or(p.Running, s.Over), attributes: about}
	if p.Running.IsZero() {
		pod.failure = cmp.Or(s.Failure, "the pod did not start")
	}
	pod.hold(span{name: "write orders", of: node, from: later(s.Reported, p.Seen), to: p.Ordered})
	pod.hold(span{name: "take orders", of: agent, from: p.Ordered, to: p.Taken, attributes: about})
	pod.hold(span{name: "start containers", of: agent, from: p.Taken, to: p.Started, attributes: about})
	for _, r := range p.InitContainers {
		run := span{name: "init container", of: agent, from: r.From, to: r.To, attributes: map[string]any{
			"k8s.container.name": r.Container, "k8s.container.restart_count": int(r.RestartsSoFar), "gangline.exit_code": int(r.ExitCode),
			"k8s.pod.name": p.Name, "gangline.slot": p.Slot,
		}}
		pod.hold(run)
	}
	pod.hold(span{name: "report", of: agent, from: p.Started, to: p.Told, attributes: about})
	pod.hold(span{name: "write status", of: node, from: p.Told, to: p.Running})
	return pod
}

// hold adds a span of which both ends are known. Where clocks differ so much that it
// would end before it begins, it takes no time.
func (s *span) hold(within span) {
	if within.from.IsZero() || within.to.IsZero() {
		return
	}
	within.to = later(within.from, within.to)
	s.within = append(s.within, within)
}

// holdPhase adds a span of the gang's, unless that was over before this start: pods that
// come late, or again, find the allocation there.
func (s *span) holdPhase(phase span) {
	if !phase.to.Before(s.from) {
		s.hold(phase)
	}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// bounded cuts a name that an agent has reported to what a host name may have.
func bounded(name string) string {
	const most = 253
	return name[:min(len(name), most)]
}

// ordered are the names of attributes.
func ordered(attributes map[string]any) []string {
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
