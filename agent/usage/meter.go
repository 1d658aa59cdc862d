package usage

import (
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

// Run is one run of a container.
type Run struct {
	Slot      int
	PodUID    string
	Container string
	Number    int
	Started   time.Time
	// Mark is the value of the variable that all its processes have, and PID its
	// first process.
	Mark string
	PID  int
}

// Meter measures the runs that it is told of. Sample may be called by one
// goroutine at a time, all else by any.
type Meter struct {
	processes processes
	self      int
	clock     func() time.Time
	began     chan struct{}

	mu     sync.Mutex
	runs   map[*run]bool
	owners map[int]owner // by process, as of the last sample

	proportionalDue time.Time
}

// owner is whose a process is.
type owner struct {
	id
	run *run
}

// run is a run and what is known of its use. Sample alone has the fields from
// seen on.
type run struct {
	Run
	reaped time.Duration // time of its processes that this program has reaped

	seen     map[id]time.Duration // its processes' own time
	children time.Duration        // all time of ended ones that is accounted for somewhere
	used     time.Duration
	// owed is time of ended processes that is to be accounted for yet: they are
	// gone, and their parents have not waited for them.
	owed       time.Duration
	measured   time.Time
	proportion float64 // of resident memory that is left when what is shared counts once
}

// NewMeter makes a meter of the processes that descend from this one. Variable
// names the mark.
func NewMeter(variable string) *Meter {
	return &Meter{
		processes: procfs{variable}, self: os.Getpid(), clock: time.Now,
		began: make(chan struct{}, 1), runs: map[*run]bool{},
	}
}

// Begin has a run measured until the function that it returns is called.
func (m *Meter) Begin(r Run) (end func()) {
	added := &run{Run: r, proportion: 1}
	m.mu.Lock()
	m.runs[added] = true
	m.mu.Unlock()
	select {
	case m.began <- struct{}{}:
	default:
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.runs, added)
	}
}

// Began gets a message when runs have begun.
func (m *Meter) Began() <-chan struct{} { return m.began }

// Reaped is told of each process that this program has waited for, and of its time
// with that of its descendants. started tells that this program has started it.
func (m *Meter) Reaped(pid int, started bool, used time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.owners[pid].run
	for other := range m.runs {
		// An orphan that came and went between two samples may be anybody's; as a
		// rule there is one container.
		if other.PID == pid || r == nil && !started && len(m.runs) == 1 {
			r = other
		}
	}
	if r != nil {
		r.reaped += used
	}
	delete(m.owners, pid)
}

// snapshot is what is known of runs before a look at the processes: what is
// reaped meanwhile must not count twice.
func (m *Meter) snapshot() map[*run]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	reaped := make(map[*run]time.Duration, len(m.runs))
	for r := range m.runs {
		reaped[r] = r.reaped
	}
	return reaped
}

// Sample measures all runs, by slot. A run of which nothing can be seen is left
// out.
func (m *Meter) Sample() (map[int]spool.Usage, error) {
	reaped := m.snapshot()
	if len(reaped) == 0 {
		return nil, nil
	}
	all, err := m.processes.all()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	known := maps.Clone(m.owners)
	m.mu.Unlock()
	owned, owners := m.attribute(all, reaped, known)
	m.mu.Lock()
	m.owners = owners
	m.mu.Unlock()
	now := m.clock()
	m.weigh(owned, now)
	slots := map[int]spool.Usage{}
	for r := range reaped {
		container, ok := m.measure(r, owned[r], reaped[r], now)
		if !ok {
			continue
		}
		u := slots[r.Slot]
		u.Version, u.PodUID, u.Time = spool.Version, r.PodUID, now
		u.Containers = append(u.Containers, container)
		slots[r.Slot] = u
	}
	for _, u := range slots {
		slices.SortFunc(u.Containers, func(a, b spool.ContainerUsage) int { return strings.Compare(a.Name, b.Name) })
	}
	return slots, nil
}

// attribute tells whose processes there are, parents before their children. known
// is what was found out the last time: a process may have lost its parent since.
func (m *Meter) attribute(all []process, runs map[*run]time.Duration, known map[int]owner) (map[*run][]id, map[int]owner) {
	marks, first := map[string]*run{}, map[int]*run{}
	for r := range runs {
		marks[r.Mark], first[r.PID] = r, r
	}
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	owned, owners := map[*run][]id{}, map[int]owner{}
	queue := children[m.self]
	for i := 0; i < len(queue); i++ {
		p := queue[i]
		queue = append(queue, children[p.pid]...)
		r := first[p.pid]
		if before := known[p.pid]; r == nil && before.id == p.id {
			r = before.run
		}
		if r == nil {
			r = marks[m.processes.mark(p.pid)]
		}
		if r == nil {
			r = owners[p.parent].run
		}
		if r != nil {
			owners[p.pid] = owner{p.id, r}
			owned[r] = append(owned[r], p.id)
		}
	}
	return owned, owners
}

// measure reads a run's processes. Parents come before their children, so that a
// process which ends meanwhile is missing rather than counted twice: once by
// itself, and once by the parent that has waited for it.
func (m *Meter) measure(r *run, processes []id, reaped time.Duration, now time.Time) (spool.ContainerUsage, bool) {
	seen := make(map[id]time.Duration, len(processes))
	progress, children := time.Duration(0), reaped
	var sum memory
	for _, known := range processes {
		p, ok := m.processes.stat(known.pid)
		if !ok || p.id != known {
			continue
		}
		seen[p.id] = p.own
		progress += max(0, p.own-r.seen[p.id])
		children += p.children
		has := m.processes.memory(p.pid)
		sum.resident, sum.anonymous = sum.resident+has.resident, sum.anonymous+has.anonymous
	}
	before := r.used
	r.used += progress + r.ended(seen, children)
	window := now.Sub(r.measured)
	first := r.measured.IsZero()
	r.seen, r.children, r.measured = seen, children, now
	working := uint64(float64(sum.resident) * r.proportion)
	if working == 0 {
		return spool.ContainerUsage{}, false // its processes have just ended
	}
	c := spool.ContainerUsage{
		Name: r.Container, Run: r.Number, Started: r.Started,
		CPU:        uint64(max(r.used, tick/2)), //nolint:gosec // it has run, for less than can be seen
		WorkingSet: working, RSS: min(sum.anonymous, working), Processes: len(seen),
	}
	if !first && window > 0 {
		c.CPURate = uint64(float64(r.used-before) / window.Seconds())
	}
	return c, true
}

// ended is the time of processes that have ended and was not counted while they
// lived. It is what has been added to those who waited for processes, less what
// was counted of the processes that are gone. If that is negative, somebody has
// not waited yet, or never will.
func (r *run) ended(seen map[id]time.Duration, children time.Duration) time.Duration {
	ended := children - r.children - r.owed
	for p, own := range r.seen {
		if _, lives := seen[p]; !lives {
			ended -= own
		}
	}
	r.owed = max(0, -ended)
	return max(0, ended)
}

// weigh asks how much memory processes share, if it is time for that.
func (m *Meter) weigh(owned map[*run][]id, now time.Time) {
	if now.Before(m.proportionalDue) {
		return
	}
	for r, processes := range owned {
		r.proportion = 1
		if len(processes) < 2 {
			continue
		}
		var share, resident uint64
		for _, p := range processes {
			s, all := m.processes.proportional(p.pid)
			share, resident = share+s, resident+all
		}
		if share > 0 && share < resident {
			r.proportion = float64(share) / float64(resident)
		}
	}
	m.proportionalDue = m.clock().Add(100 * m.clock().Sub(now)) // one percent of the time
}
