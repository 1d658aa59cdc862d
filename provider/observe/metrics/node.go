package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stage is where a gang is in its life; see the architecture's list.
type Stage string

// The stages. A gang that is not in any is over.
const (
	StageOver       Stage = ""
	StageForming    Stage = "forming"    // pods are missing, or the gang waits for something else in Kubernetes
	StageSubmitting Stage = "submitting" // the workload manager has not taken the job yet
	StageQueued     Stage = "queued"     // the job waits
	StageStarting   Stage = "starting"   // the job has its nodes, not all agents have reported
	StageRunning    Stage = "running"
	StageDraining   Stage = "draining" // the allocation is being given back
)

func stages() []Stage {
	return []Stage{StageForming, StageSubmitting, StageQueued, StageStarting, StageRunning, StageDraining}
}

// The states of a user's site.
const (
	SiteUp     = "up"
	SiteDown   = "down"
	SiteUnread = "unread" // what its spool holds is not known yet, and nothing is done for its user
)

// The states of HPC nodes.
const (
	NodeUsable   = "usable"
	NodeUnusable = "unusable" // down or drained
)

// The states of agents.
const (
	AgentIdle    = "idle"
	AgentRunning = "running"
)

// The kinds of orphans.
const (
	orphanJob       = "job"
	orphanDirectory = "directory"
)

// Sources are asked when somebody scrapes. They may be called from any goroutine.
type Sources struct {
	// Sites counts the users' sites, by state; HPCNodes the nodes of the virtual node's
	// partition.
	Sites, HPCNodes func() map[string]int
	// Agents counts the slots of living allocations whose agent has reported, by state:
	// AgentRunning for those that have a pod, AgentIdle for the others.
	Agents func() map[string]int
	// Programs counts the same agents by their program's version.
	Programs func() map[string]int
}

// Node are the metrics of one virtual node. Durations are in seconds.
type Node struct {
	gangs, slots *prometheus.GaugeVec
	submitted    prometheus.Observer
	queued       prometheus.Observer
	started      prometheus.Observer
	launched     prometheus.Observer
	reported     prometheus.Observer
	ended        *prometheus.CounterVec
	restarts     prometheus.Counter
	containers   prometheus.Counter
	// OrphansFound and OrphansCleaned are by kind.
	OrphansFound   *prometheus.GaugeVec
	OrphansCleaned *prometheus.CounterVec

	mu     sync.Mutex
	stages map[string]staged // by gang
}

type staged struct {
	stage Stage
	slots int
}

// The buckets, in seconds: of what takes a moment, and of what may take days.
func latencyBuckets() []float64 {
	return []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
}

func queueBuckets() []float64 {
	return []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600}
}

// NewNode registers a virtual node's metrics.
func NewNode(registerer prometheus.Registerer, s Sources) (*Node, error) {
	m := &maker{registerer: registerer}
	n := newNode(m, s)
	return n, m.err()
}

func newNode(m *maker, s Sources) *Node {
	n := &Node{
		gangs: m.gauge("gangline_gangs",
			"Gangs by state: forming, submitting, queued, starting, running, draining.", "state"),
		slots: m.gauge("gangline_gang_slots",
			"Places for pods of the gangs, by the gang's state.", "state"),
		submitted: m.histogram("gangline_gang_submit_duration_seconds",
			"From the look at which a gang was complete and free to run until the workload manager had taken its job.", latencyBuckets()).WithLabelValues(),
		queued: m.histogram("gangline_gang_queue_duration_seconds",
			"From a job's submission to its start, by the workload manager's clock.", queueBuckets()).WithLabelValues(),
		started: m.histogram("gangline_pod_start_duration_seconds",
			"From the moment a pod was seen on the node until the API server had its first status that is not Pending; the queue is in it.", queueBuckets()).WithLabelValues(),
		launched: m.histogram("gangline_pod_launch_duration_seconds",
			"From the moment all agents of a pod's gang had reported until the API server had its first status that is not Pending.", latencyBuckets()).WithLabelValues(),
		reported: m.histogram("gangline_pod_status_latency_seconds",
			"From an agent's report (the time of its file, by the file server's clock) until the API server had the pod status that was made of it.", latencyBuckets()).WithLabelValues(),
		ended: m.counter("gangline_allocations_ended_total",
			"Allocations that have ended, by outcome: Completed, Failed, Cancelled, Timeout, NodeFailure, Preempted, OutOfMemory, Requeued, Lost, Void (it vanished before it ran).", "outcome"),
		restarts: m.counter("gangline_agent_restarts_total",
			"Agents that took the place of one that had reported for the same slot before.").WithLabelValues(),
		containers: m.counter("gangline_container_restarts_total",
			"Restarts of containers by their agents, as they came into pods' statuses.").WithLabelValues(),
		OrphansFound: m.gauge("gangline_orphans",
			"Jobs and spool directories that bear this node's mark and that it knows nothing of.", "kind"),
		OrphansCleaned: m.counter("gangline_orphans_cleaned_total",
			"Cancellations of orphaned jobs and removals of orphaned spool directories.", "kind"),
		stages: map[string]staged{},
	}
	m.asked("gangline_sites", "HPC users' sites by state: up, down (the last call did not get through), unread (the spool has not been read yet).",
		"state", []string{SiteUp, SiteDown, SiteUnread}, s.Sites)
	m.asked("gangline_hpc_nodes", "HPC nodes of the virtual node's partition, by state: usable, or unusable (down or drained).",
		"state", []string{NodeUsable, NodeUnusable}, s.HPCNodes)
	m.asked("gangline_agents", "Agents of living allocations that have reported, by state: running (a pod of theirs is not over), idle.",
		"state", []string{AgentRunning, AgentIdle}, s.Agents)
	m.askedFor("gangline_agent_versions", "The same agents by their program's version: after an upgrade the older ones are those of jobs that were there before. Versions that cannot be told are \"unknown\".",
		"version", s.Programs)
	for _, stage := range stages() {
		n.gangs.WithLabelValues(string(stage))
		n.slots.WithLabelValues(string(stage))
	}
	for _, kind := range []string{orphanJob, orphanDirectory} {
		n.OrphansFound.WithLabelValues(kind)
		n.OrphansCleaned.WithLabelValues(kind)
	}
	return n
}

// Gang notes where a gang is, and how many slots it has. StageOver forgets it.
func (n *Node) Gang(key string, stage Stage, slots int) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if before, known := n.stages[key]; known {
		n.gangs.WithLabelValues(string(before.stage)).Dec()
		n.slots.WithLabelValues(string(before.stage)).Sub(float64(before.slots))
		delete(n.stages, key)
	}
	if stage == StageOver {
		return
	}
	n.stages[key] = staged{stage, slots}
	n.gangs.WithLabelValues(string(stage)).Inc()
	n.slots.WithLabelValues(string(stage)).Add(float64(slots))
}

// observe takes a duration in. Clocks of several machines may say that something came
// before its cause.
func observe(o prometheus.Observer, d time.Duration) { o.Observe(max(d, 0).Seconds()) }

// Submitted notes how long a complete gang's submission took.
func (n *Node) Submitted(d time.Duration) {
	if n != nil {
		observe(n.submitted, d)
	}
}

// Queued notes how long a job waited.
func (n *Node) Queued(d time.Duration) {
	if n != nil {
		observe(n.queued, d)
	}
}

// Started notes how long a pod's start took since it came to the node.
func (n *Node) Started(d time.Duration) {
	if n != nil {
		observe(n.started, d)
	}
}

// Launched notes how long a pod's start took since its gang's agents were there.
func (n *Node) Launched(d time.Duration) {
	if n != nil {
		observe(n.launched, d)
	}
}

// Reported notes how long an agent's report was under way.
func (n *Node) Reported(d time.Duration) {
	if n != nil {
		observe(n.reported, d)
	}
}

// Ended counts an allocation's end.
func (n *Node) Ended(outcome string) {
	if n != nil {
		n.ended.WithLabelValues(outcome).Inc()
	}
}

// AgentRestarted counts an agent that took another's place.
func (n *Node) AgentRestarted() {
	if n != nil {
		n.restarts.Inc()
	}
}

// ContainersRestarted counts restarts of containers.
func (n *Node) ContainersRestarted(count int) {
	if n != nil && count > 0 {
		n.containers.Add(float64(count))
	}
}
