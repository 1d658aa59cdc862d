package simulator

import (
	"crypto/rand"
	"fmt"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/wellknown"
)

// agent is one slot's. Only its allocation's goroutine uses it.
type agent struct {
	of     *allocation
	index  int
	status spool.Status
	seen   stamp // of desired.json
	wanted spool.Desired

	reported bool
	pod      *pod
	finished map[string]bool // UIDs of pods that are not to run any more
}

// pod is a pod that was taken and is not done.
type pod struct {
	orders   spool.PodOrders
	started  bool
	stopping bool
	ended    bool
}

// firstSSHPort is where the ports begin that the agents say they have.
const firstSSHPort = 20000

func newAgent(a *allocation, index int, n *node) *agent {
	return &agent{of: a, index: index, finished: map[string]bool{}, status: spool.Status{
		Version: spool.Version,
		Agent: spool.Agent{
			Instance: rand.Text(), JobID: a.job.job.ID, Node: n.name, Address: n.address(),
			SSHPort: firstSSHPort + index%10000, Recipient: a.key.Recipient(), Started: time.Now(), PrivateRoot: true,
		},
	}}
}

// address is an IP of a network that nobody routes.
func (n *node) address() string {
	return fmt.Sprintf("10.%d.%d.%d", n.number>>16&0xff, n.number>>8&0xff, n.number&0xff)
}

func (g *agent) report() {
	g.reported = true
	g.of.write(g.of.dir.Status(g.index), g.status)
}

// waits tells that the node's next word is awaited.
func (g *agent) waits() bool {
	return g.reported && g.pod == nil && g.status.Pod == nil || g.pod != nil && g.pod.stopping
}

// busy tells that something of a pod is left.
func (g *agent) busy() bool { return g.pod != nil }

// look reads what is wanted of the slot.
func (g *agent) look() {
	if !g.reported {
		return
	}
	if changed(g.of.dir.Desired(g.index), &g.seen) {
		var d spool.Desired
		if found, err := spool.Read(g.of.dir.Desired(g.index), &d); err == nil && found {
			g.wanted = d
		}
	}
	d := g.wanted
	switch {
	case d.PodUID == "" || g.finished[d.PodUID]:
	case g.pod != nil && (g.pod.orders.UID != d.PodUID || d.Action == spool.ActionStop):
		g.stop(false)
	case g.pod != nil:
	case d.Action == spool.ActionStop:
		g.done(spool.PodStatus{UID: d.PodUID, Containers: []corev1.ContainerStatus{}})
	case d.Recipient == g.status.Agent.Recipient && len(g.of.gang.Names) > 0:
		g.wanted.Orders, g.wanted.Update = nil, nil
		g.take(d)
	}
}

// take begins with a pod.
func (g *agent) take(d spool.Desired) {
	p := &pod{}
	if err := g.of.key.Open(d.Orders, &p.orders); err != nil {
		g.done(spool.PodStatus{UID: d.PodUID, Containers: []corev1.ContainerStatus{}, Reason: wellknown.ReasonInvalidOrders, Message: err.Error()})
		return
	}
	// By these directories a node that starts anew knows which pods had the slot.
	if err := os.MkdirAll(g.of.dir.PodLogs(g.index, d.PodUID), 0o700); err != nil {
		g.done(spool.PodStatus{UID: d.PodUID, Containers: []corev1.ContainerStatus{}, Reason: wellknown.ReasonSetupFailed, Message: err.Error()})
		return
	}
	g.pod = p
	now := time.Now()
	g.status.Pod = &spool.PodStatus{UID: d.PodUID, Taken: now, Containers: []corev1.ContainerStatus{}}
	g.after("pod", g.of.sim.options.Latency.Pod, func() { g.start(p) })
}

// start starts all containers; init containers have ended well by then.
func (g *agent) start(p *pod) {
	if g.pod != p || p.ended {
		return
	}
	p.started = true
	now := metav1.Now()
	g.of.sim.started(p.orders.UID)
	s := *g.status.Pod
	s.Started = now.Time
	for _, c := range p.orders.InitContainers {
		s.InitContainers = append(s.InitContainers, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: ptr.To(false), ContainerID: p.container(c.Name), State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: p.container(c.Name)},
			},
		})
	}
	ends, code, all := time.Duration(0), int32(0), true
	for _, c := range p.orders.Containers {
		s.Containers = append(s.Containers, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: ptr.To(true), ContainerID: p.container(c.Name),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
		b := g.of.sim.options.Behave(c)
		all = all && b.Runs >= 0
		ends, code = max(ends, b.Runs), max(code, b.ExitCode)
	}
	g.status.Pod = &s
	g.of.write(g.of.dir.Status(g.index), g.status)
	if all {
		g.of.due.at(now.Add(ends), func() { g.end(p, code) })
	}
}

// container is a container's id.
func (p *pod) container(name string) string {
	return "gangline://" + p.orders.UID + "/" + name + "/0"
}

// stop ends the slot's pod by a signal, a little later.
func (g *agent) stop(interrupted bool) {
	p := g.pod
	if p == nil || p.stopping {
		return
	}
	p.stopping = true
	g.after("stop", g.of.sim.options.Latency.Stop, func() { g.finish(p, 128+int32(syscall.SIGTERM), interrupted) })
}

// end ends a pod as its own program would.
func (g *agent) end(p *pod, code int32) {
	if p != nil && g.pod == p && p.started && !p.ended {
		g.of.sim.ended(g.of.job.request.Name, p.orders.UID, code)
		g.finish(p, code, false)
	}
}

// finish is a pod's end.
func (g *agent) finish(p *pod, code int32, interrupted bool) {
	if g.pod != p || p.ended {
		return
	}
	p.ended = true
	if p.started {
		g.of.sim.stopped()
	}
	s := *g.status.Pod
	s.Interrupted = interrupted
	s.Containers = nil
	now := metav1.Now()
	for _, c := range g.status.Pod.Containers {
		end := corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", FinishedAt: now, ContainerID: c.ContainerID}
		if code != 0 {
			end.Reason = "Error"
		}
		if c.State.Running != nil {
			end.StartedAt = c.State.Running.StartedAt
		}
		c.Ready, c.Started, c.State = false, ptr.To(false), corev1.ContainerState{Terminated: &end}
		s.Containers = append(s.Containers, c)
	}
	if s.Containers == nil {
		s.Containers = []corev1.ContainerStatus{}
	}
	g.done(s)
}

// done is the slot's last word about a pod.
func (g *agent) done(s spool.PodStatus) {
	g.finished[s.UID] = true
	g.pod = nil
	s.Done = true
	g.status.Pod = &s
	g.of.write(g.of.dir.Status(g.index), g.status)
}

// count takes a pod out of the counts that has vanished with its agent.
func (g *agent) count() {
	if g.pod != nil && g.pod.started {
		g.of.sim.stopped()
	}
}

// after does something when a drawn time is over, in the allocation's goroutine.
func (g *agent) after(kind string, most time.Duration, do func()) {
	g.of.due.at(time.Now().Add(g.of.sim.chance.spread(kind, most)), do)
}
