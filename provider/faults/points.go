package faults

// Variable is the environment variable that arms a point.
const Variable = "GANGLINE_FAULT"

// Point is a moment at which a crash is tried.
type Point int

// The points, in the order of a gang's life. What is said is what has just
// happened, or is about to.
const (
	// Of gangline-node.

	Accepted    Point = iota // a pod got its finalizer, nothing else was done for it
	Allocated                // the allocation's directory was made
	Submitting               // the workload manager is about to be asked for the job
	Submitted                // it has taken the job, and only it knows the id
	Recorded                 // the job's id is in the spool
	Named                    // the agents were given the table of names
	Ordered                  // an agent was given a pod
	Reported                 // a pod's status was written
	StopOrdered              // an agent was told to stop a pod
	Releasing                // the agents were asked to end
	Cancelling               // the workload manager is about to be asked to cancel the job
	Cancelled                // it was asked
	LastStatus               // the pods have their last status, the allocation has not ended
	Ended                    // the allocation's end was written
	Unbinding                // a pod lost its finalizer and is about to be removed
	Collecting               // an allocation was forgotten, its directory is still there

	// Of gangline-agent.

	Claimed       // the launcher has taken the claim
	Announced     // an agent wrote that it is there
	Took          // an agent took a pod, nothing of it runs
	Started       // a container's process was started, nobody was told
	StatusWritten // an agent wrote a status
	PodEnded      // a pod's processes and files are gone, nobody was told

	count
)

// firstOfAgent divides the points of the two programs.
const firstOfAgent = Claimed

// names are the points' names, as in GANGLINE_FAULT.
func names() [count]string {
	return [count]string{
		Accepted: "accepted", Allocated: "allocated", Submitting: "submitting", Submitted: "submitted", Recorded: "recorded",
		Named: "named", Ordered: "ordered", Reported: "reported", StopOrdered: "stop-ordered", Releasing: "releasing",
		Cancelling: "cancelling", Cancelled: "cancelled", LastStatus: "last-status", Ended: "ended",
		Unbinding: "unbinding", Collecting: "collecting",
		Claimed: "claimed", Announced: "announced", Took: "took", Started: "started", StatusWritten: "status-written", PodEnded: "pod-ended",
	}
}

// String is the point's name in GANGLINE_FAULT.
func (p Point) String() string {
	if p < 0 || p >= count {
		return "unknown"
	}
	return names()[p]
}

// Farewell is what a process writes to stderr before it dies at a point.
func Farewell(p Point) string { return Variable + ": dying at " + p.String() }

// OfNode are gangline-node's points and OfAgent gangline-agent's, all of them.
func OfNode() []Point  { return between(0, firstOfAgent) }
func OfAgent() []Point { return between(firstOfAgent, count) }

func between(first, end Point) []Point {
	var points []Point
	for p := first; p < end; p++ {
		points = append(points, p)
	}
	return points
}
