package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

// node is a kernel for tests.
type node struct {
	list   map[int]process
	marks  map[int]string
	mem    map[int]memory
	shares map[int][2]uint64
	asked  int
	now    time.Time
	slow   time.Duration // of each question after shares
}

const self = 10

func newNode() *node {
	return &node{
		list: map[int]process{}, marks: map[int]string{}, mem: map[int]memory{}, shares: map[int][2]uint64{},
		now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}

func (n *node) all() ([]process, error) {
	var list []process
	for _, p := range n.list {
		list = append(list, p)
	}
	return list, nil
}
func (n *node) stat(pid int) (process, bool) { p, ok := n.list[pid]; return p, ok }
func (n *node) mark(pid int) string          { return n.marks[pid] }
func (n *node) memory(pid int) memory        { return n.mem[pid] }
func (n *node) proportional(pid int) (share, resident uint64) {
	n.asked++
	n.now = n.now.Add(n.slow)
	return n.shares[pid][0], n.shares[pid][1]
}

func (n *node) meter() *Meter {
	return &Meter{
		processes: n, self: self, clock: func() time.Time { return n.now },
		began: make(chan struct{}, 1), runs: map[*run]bool{},
	}
}

// put adds or changes a process; its times are in seconds.
func (n *node) put(pid, parent, own, children int) {
	n.list[pid] = process{
		id: id{pid, 1}, parent: parent,
		own: time.Duration(own) * time.Second, children: time.Duration(children) * time.Second,
	}
	n.mem[pid] = memory{resident: 1 << 20, anonymous: 1 << 19}
}

// container is what is reported of a slot's only container.
func container(t *testing.T, m *Meter, slot int) spool.ContainerUsage {
	t.Helper()
	slots, err := m.Sample()
	require.NoError(t, err)
	require.Len(t, slots[slot].Containers, 1)
	return slots[slot].Containers[0]
}

func seconds(c spool.ContainerUsage) int { return int(time.Duration(c.CPU) / time.Second) }

func TestProcessorTimeCountsEachSecondOnce(t *testing.T) {
	type step struct {
		change func(n *node, m *Meter)
		want   int
	}
	for sentence, steps := range map[string][]step{
		"processes that live": {
			{func(n *node, _ *Meter) { n.put(20, self, 3, 0); n.put(21, 20, 4, 0) }, 7},
			{func(n *node, _ *Meter) { n.put(20, self, 4, 0); n.put(21, 20, 6, 0) }, 10},
		},
		"a child that ends and is waited for": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0); n.put(21, 20, 4, 0) }, 5},
			{func(n *node, _ *Meter) { delete(n.list, 21); n.put(20, self, 1, 6) }, 7},
		},
		"a child that has ended and is waited for later": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0); n.put(21, 20, 4, 0) }, 5},
			{func(n *node, _ *Meter) { delete(n.list, 21) }, 5},
			{func(n *node, _ *Meter) { n.put(20, self, 2, 6) }, 8},
		},
		"a child that nobody ever saw": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0) }, 1},
			{func(n *node, _ *Meter) { n.put(20, self, 1, 9) }, 10},
		},
		"a child that nobody waits for is counted as far as it was seen": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0); n.put(21, 20, 4, 0) }, 5},
			{func(n *node, _ *Meter) { delete(n.list, 21); n.put(20, self, 3, 0) }, 7},
			{func(n *node, _ *Meter) { n.put(20, self, 5, 0) }, 9},
		},
		"an orphan that this program reaps": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0); n.put(21, 20, 4, 0) }, 5},
			{func(n *node, _ *Meter) { n.put(21, self, 5, 0) }, 6},
			{func(n *node, m *Meter) { delete(n.list, 21); m.Reaped(21, false, 8*time.Second) }, 9},
		},
		"an orphan that nobody saw is the only container's": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0) }, 1},
			{func(_ *node, m *Meter) { m.Reaped(99, false, 2*time.Second) }, 3},
			{func(_ *node, m *Meter) { m.Reaped(98, true, 50*time.Second) }, 3}, // the agent's own helper
		},
		"a number that another process has got": {
			{func(n *node, _ *Meter) { n.put(20, self, 1, 0); n.put(21, 20, 100, 0) }, 101},
			{func(n *node, _ *Meter) {
				n.put(20, self, 1, 100)
				n.put(21, 20, 2, 0)
				p := n.list[21]
				p.start = 7
				n.list[21] = p
			}, 103},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			n := newNode()
			m := n.meter()
			defer m.Begin(Run{Slot: 3, Container: "main", Mark: "run", PID: 20})()
			for i, s := range steps {
				s.change(n, m)
				n.now = n.now.Add(15 * time.Second)
				assert.Equal(t, s.want, seconds(container(t, m, 3)), "step %d", i)
			}
		})
	}
}

func TestProcessesAreTheirContainers(t *testing.T) {
	n := newNode()
	n.put(self, 1, 100, 0)     // this program
	n.put(20, self, 1, 0)      // the first process of a
	n.put(21, 20, 2, 0)        // its child
	n.put(30, self, 4, 0)      // the first process of b
	n.put(31, 30, 8, 0)        // its child, which has an environment of its own
	n.put(40, self, 16, 0)     // a session in a
	n.put(50, self, 32, 0)     // a helper of this program
	n.put(60, 1, 64, 0)        // somebody else's
	n.put(41, 40, 128, 0)      // the session's child
	n.marks[40] = "uid-a-0"    // exec marks its processes
	n.marks[60] = "uid-a-0"    // a forged one, of another agent
	n.marks[31] = "uid-elsewh" // not a mark of ours
	m := n.meter()
	defer m.Begin(Run{Slot: 0, PodUID: "uid", Container: "b", Mark: "uid-b-0", PID: 30})()
	defer m.Begin(Run{Slot: 0, PodUID: "uid", Container: "a", Mark: "uid-a-0", PID: 20})()
	slots, err := m.Sample()
	require.NoError(t, err)
	require.Len(t, slots, 1)
	got := slots[0]
	assert.Equal(t, "uid", got.PodUID)
	require.Len(t, got.Containers, 2)
	assert.Equal(t, []any{"a", 1 + 2 + 16 + 128, 4}, []any{got.Containers[0].Name, seconds(got.Containers[0]), got.Containers[0].Processes})
	assert.Equal(t, []any{"b", 4 + 8, 2}, []any{got.Containers[1].Name, seconds(got.Containers[1]), got.Containers[1].Processes})
}

func TestNothingIsZeroOfWhatIsMeasured(t *testing.T) {
	n := newNode()
	n.put(20, self, 0, 0)
	m := n.meter()
	end := m.Begin(Run{Container: "main", PID: 20})
	c := container(t, m, 0)
	assert.NotZero(t, c.CPU)
	assert.NotZero(t, c.WorkingSet)
	delete(n.list, 20) // it has ended, and this is not known yet
	slots, err := m.Sample()
	require.NoError(t, err)
	assert.Empty(t, slots)
	end()
	slots, err = m.Sample()
	require.NoError(t, err)
	assert.Empty(t, slots)
}

func TestTheRateIsThatOfTheLastInterval(t *testing.T) {
	n := newNode()
	n.put(20, self, 100, 0)
	m := n.meter()
	defer m.Begin(Run{Container: "main", PID: 20})()
	assert.Zero(t, container(t, m, 0).CPURate)
	n.now = n.now.Add(10 * time.Second)
	n.put(20, self, 125, 0)
	assert.Equal(t, uint64(2.5e9), container(t, m, 0).CPURate)
}

func TestSharedMemoryCountsOnceAndIsAskedForRarely(t *testing.T) {
	n := newNode()
	n.slow = time.Second
	n.put(20, self, 1, 0)
	m := n.meter()
	defer m.Begin(Run{Container: "main", PID: 20})()
	assert.EqualValues(t, 1<<20, container(t, m, 0).WorkingSet)
	assert.Zero(t, n.asked, "one process shares with nobody that counts")
	n.put(21, 20, 1, 0)
	n.put(22, 20, 1, 0)
	for pid := 20; pid < 23; pid++ {
		n.shares[pid] = [2]uint64{400 << 10, 1 << 20}
	}
	c := container(t, m, 0)
	assert.EqualValues(t, 1200<<10, c.WorkingSet)
	assert.EqualValues(t, 1200<<10, c.RSS, "never more than all")
	assert.Equal(t, 3, n.asked)
	n.now = n.now.Add(299 * time.Second)
	n.put(23, 20, 1, 0)
	assert.InDelta(t, 1600<<10, container(t, m, 0).WorkingSet, 1024, "what was shared stays so")
	assert.Equal(t, 3, n.asked, "the answer took 3 s, so it is not asked for in the next 300 s")
	n.now = n.now.Add(time.Second)
	container(t, m, 0)
	assert.Equal(t, 7, n.asked)
}

func TestParsers(t *testing.T) {
	p, ok := parseStat(7, "7 (a) b (c) R 5 7 7 0 -1 4194304 1 2 3 4 150 50 7 3 20 0 1 0 12345 1000 200 18446744073709551615")
	assert.True(t, ok)
	assert.Equal(t, process{id: id{7, 12345}, parent: 5, own: 2 * time.Second, children: 100 * time.Millisecond}, p)
	_, ok = parseStat(7, "7 (x) R 5")
	assert.False(t, ok)

	assert.Equal(t, memory{resident: 300 * 4096, anonymous: 200 * 4096}, parseStatm("1000 300 100 1 0 50 0\n", 4096))
	assert.Equal(t, memory{}, parseStatm("", 4096))

	share, resident := parseRollup("55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:                1684 kB\nPss:                 300 kB\nPss_Anon: 100 kB\n")
	assert.EqualValues(t, 300<<10, share)
	assert.EqualValues(t, 1684<<10, resident)

	assert.Equal(t, "uid-a-0", markIn([]byte("PATH=/bin\x00MARK=uid-a-0\x00"), "MARK"))
	assert.Empty(t, markIn([]byte("XMARK=a\x00MARKER=b\x00"), "MARK"))
}

func TestParseNvidia(t *testing.T) {
	for sentence, tc := range map[string]struct {
		out  string
		want []spool.DeviceUsage
	}{
		"two devices": {
			"GPU-1a, NVIDIA A100-SXM4-40GB, 35, 1024, 40960\nGPU-2b, NVIDIA A100-SXM4-40GB, 0, 4, 40960\n",
			[]spool.DeviceUsage{
				{Make: "nvidia", Model: "NVIDIA A100-SXM4-40GB", ID: "GPU-1a", MemoryTotal: 40 << 30, MemoryUsed: 1 << 30, DutyCycle: 35},
				{Make: "nvidia", Model: "NVIDIA A100-SXM4-40GB", ID: "GPU-2b", MemoryTotal: 40 << 30, MemoryUsed: 4 << 20},
			},
		},
		"a device that does not tell all": {
			"GPU-1a, GRID, [N/A], [Not Supported], 1024\n",
			[]spool.DeviceUsage{{Make: "nvidia", Model: "GRID", ID: "GPU-1a", MemoryTotal: 1 << 30}},
		},
		"no devices": {"No devices were found\n", nil},
	} {
		assert.Equal(t, tc.want, ParseNvidia(tc.out), sentence)
	}
}
