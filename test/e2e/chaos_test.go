package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/test/checker"
	"github.com/gangline/gangline/test/harness"
)

// These variables make a whole storm of TestChaos: how long it lasts (a Go duration), which
// one it is, and how often gangline-node is killed in it (0: now and then, for as long as
// it lasts). See docs/chaos.md.
const envChaosDuration, envChaosSeed, envChaosKills = "GANGLINE_CHAOS_DURATION", "GANGLINE_CHAOS_SEED", "GANGLINE_CHAOS_KILLS"

// chaosDir keeps what is needed to look into a storm when it is over, by its seed.
const chaosDir = "/var/lib/gangline-dev/chaos"

// TestChaos lets users and saboteurs loose on one virtual node at once, and has an
// independent checker judge what it saw. Without the variables above it is a breeze of some
// seconds that is always the same.
func TestChaos(t *testing.T) {
	t.Parallel()
	if os.Getenv(envChaosDuration)+os.Getenv(envChaosSeed)+os.Getenv(envChaosKills) == "" {
		breeze(t)
		return
	}
	duration, err := time.ParseDuration(cmp.Or(os.Getenv(envChaosDuration), "60s"))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(envChaosSeed), strconv.Itoa(os.Getpid())), 10, 64)
	require.NoError(t, err)
	kills, err := strconv.Atoi(cmp.Or(os.Getenv(envChaosKills), "0"))
	require.NoError(t, err)
	t.Logf("this storm again: make chaos SEED=%d DURATION=%s KILLS=%d", seed, duration, kills)
	storming(t, seed, duration, kills)
}

func TestAStormRemovesTheRecordsOfAnEarlierOne(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{historyFile, violationsFile, nodeLogFile, deedsFile, "my notes"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("earlier"), 0o600))
	}
	journal, err := openJournal(dir)
	require.NoError(t, err)
	require.NoError(t, journal.Close())
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{filepath.Join(dir, deedsFile), filepath.Join(dir, "my notes")}, left)
	text, err := os.ReadFile(journal.Name())
	require.NoError(t, err)
	assert.Empty(t, text)
}

// breeze is the short form.
func breeze(t *testing.T) {
	spool := smallFilesystem(t)
	env := environmentWith(t, harness.Options{
		Name: "chaos", WorkloadManager: "slurm", Nodes: 3, Cgroup: true,
		Configure: func(c *provider.Config) { c.Spool, c.Lock = spool, lockFile(t) },
	})
	s := newStorm(t, env, 1, spool)
	s.patience = patience
	s.blow(plan(s.seed, 4*time.Second, breezeLanes()))
}

// storming is the long form. It has a control plane of its own, which may die, and every
// other seed is a node that is far from its site.
func storming(t *testing.T, seed uint64, duration time.Duration, kills int) {
	overSSH := seed%2 == 1
	spools, err := os.MkdirTemp(runDir, "spools-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(spools) })
	require.NoError(t, os.Chmod(spools, 0o755))
	spool := filepath.Join(spools, harness.Users()[0])
	blocks := mountBlocks(t, spool)
	o := harness.Options{
		Name: fmt.Sprintf("storm-%d", seed), WorkloadManager: "slurm", Nodes: 4, Cgroup: true, Login: overSSH, ControlPlane: mortalControlPlane(t),
		Configure: func(c *provider.Config) {
			c.Spool, c.Lock = spool, lockFile(t)
			if overSSH {
				c.Spool, c.Lock = filepath.Join(spools, "{user}"), ""
				c.Identity = identity.Map{{Identity: identity.Identity{User: harness.Users()[0]}}}
			}
		},
	}
	s := newStorm(t, environmentWith(t, o), seed, spool)
	s.blocks, s.patience, s.dir = blocks, 6*time.Minute, filepath.Join(chaosDir, strconv.FormatUint(seed, 10))
	s.journal, err = openJournal(s.dir)
	require.NoError(t, err)
	defer s.journal.Close() //nolint:errcheck // its lines are in memory as well
	s.blow(plan(seed, duration, chaosLanes(kills, overSSH)))
}

// The records of a storm.
const deedsFile, historyFile, violationsFile, nodeLogFile = "deeds.log", "history.json", "violations.txt", "node.log"

// openJournal begins the records of a storm in a directory. Those of an earlier one of the same
// seed go: if this one is broken off they would be taken for its own.
func openJournal(dir string) (*os.File, error) {
	for _, name := range []string{historyFile, violationsFile, nodeLogFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("removing what an earlier storm has left: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("beginning the storm's records: %w", err)
	}
	return os.Create(filepath.Join(dir, deedsFile))
}

// lockFile is a node's lock beside its spool, which may be full or frozen.
func lockFile(t *testing.T) string {
	dir, err := os.MkdirTemp(runDir, "locks-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return filepath.Join(dir, "lock")
}

// mortalControlPlane is one of the test's own, whose components are started again when
// they die.
func mortalControlPlane(t *testing.T) *harness.ControlPlane {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	dir := filepath.Join(runDir, "mortal-chaos")
	own, err := harness.StartControlPlane(t.Context(), filepath.Join(root(), "bin"), dir, t.Output(), "--respawn", "--port="+port)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := own.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return own
}

// storm is what is going on.
type storm struct {
	*world
	seed     uint64
	spool    string
	blocks   *blockSpool // nil if the spool cannot be frozen
	patience time.Duration
	dir      string // where its records are kept; empty for nowhere
	notes    string
	began    time.Time
	recorder *checker.Recorder
	mounts   map[string]map[string]bool // what was mounted on each HPC node before
	journal  *os.File                   // the log as it is written; nil for none
	// logBefore is how long gangline-node's log was when it was last started; only the lane
	// that drives it uses it.
	logBefore int

	mu         sync.Mutex
	log        []string
	namespaces []string
	made       int
}

func newStorm(t *testing.T, env *harness.Environment, seed uint64, spool string) *storm {
	s := &storm{world: newWorld(t, env), seed: seed, spool: spool, recorder: checker.NewRecorder()}
	s.notes = filepath.Join(env.Slurm.SharedDir(), "notes-"+s.namespace)
	require.NoError(t, os.WriteFile(s.notes, nil, 0o600))
	require.NoError(t, os.Chown(s.notes, env.Slurm.UID(), env.Slurm.GID()))
	return s
}

// blow carries out all orders, waits until the sea is calm, and has it judged.
func (s *storm) blow(orders []order) {
	s.mounts = s.mountsOfNodes()
	stop := s.watch()
	s.openNamespace()
	s.openNamespace()
	s.began = time.Now()
	s.rage(orders)
	s.mend()
	s.clearOutlived()
	s.everythingEnds()
	stillWorks := s.sweeper()
	s.clearAway()
	left := append(s.leftovers(), stillWorks...)
	stop()
	s.judge(left)
	s.nodeKeptItsHead()
}

// watch has the recorder see all until stop is called: the API's watch, the machine's
// processes and the spool.
func (s *storm) watch() (stop func()) {
	config, err := clientcmd.BuildConfigFromFlags("", s.env.ControlPlane.Kubeconfig())
	require.NoError(s, err)
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	factory := informers.NewSharedInformerFactory(clientset, 0)
	pods := factory.Core().V1().Pods().Informer()
	saw := func(o any) {
		if pod, ok := o.(*corev1.Pod); ok && s.ours(pod.Namespace) {
			s.recorder.Pod(pod, time.Now())
		}
	}
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: saw, UpdateFunc: func(_, o any) { saw(o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			saw(o)
			if pod, ok := o.(*corev1.Pod); ok {
				s.recorder.PodGone(string(pod.UID), time.Now())
			}
		},
	})
	require.NoError(s, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var watchers sync.WaitGroup
	watchers.Go(func() { s.look(ctx) })
	watchers.Go(func() { s.administrate(ctx) })
	stop = func() { cancel(); watchers.Wait(); factory.Shutdown() }
	s.Cleanup(stop)
	return stop
}

// look looks again and again at what tells nobody of its changes.
func (s *storm) look(ctx context.Context) {
	const every = 150 * time.Millisecond
	for tick := time.NewTicker(every); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case at := <-tick.C:
			s.recorder.LookAtProcesses("/proc", s.env.Slurm.SharedDir(), at)
			s.recorder.Scan(s.spool, time.Now())
		}
	}
}

// judge has the checker look at all that was seen, and keeps it.
func (s *storm) judge(left []string) {
	notes, err := os.ReadFile(s.notes)
	require.NoError(s, err)
	processes, err := checker.ReadNotes(bytes.NewReader(notes))
	assert.NoError(s, err) // what else was seen is kept all the same
	completed, err := os.Open(s.env.Slurm.LogFile("jobcomp"))
	require.NoError(s, err)
	defer completed.Close() //nolint:errcheck // only read
	jobs, err := checker.ReadJobcomp(completed)
	require.NoError(s, err)
	history := s.recorder.History(processes, jobs, left)
	violations := checker.Check(history)
	s.keep(history, violations)
	s.Logf("%s in all; %s", time.Since(s.began).Round(time.Second), checker.Tally(history))
	for _, v := range violations {
		s.Errorf("%v", v)
	}
	if len(violations) > 0 {
		s.Logf("the storm's log:\n%s", joinLines(s.log))
	}
}

// keep leaves the storm's records behind.
func (s *storm) keep(history checker.History, violations []checker.Violation) {
	if s.dir == "" {
		return
	}
	text, err := json.MarshalIndent(history, "", " ")
	require.NoError(s, err)
	words := make([]string, len(violations))
	for i, v := range violations {
		words[i] = v.String()
	}
	node, err := os.ReadFile(s.env.Node.LogFile())
	require.NoError(s, err)
	for name, data := range map[string][]byte{
		historyFile: text, violationsFile: []byte(joinLines(words)), nodeLogFile: node,
	} {
		assert.NoError(s, os.WriteFile(filepath.Join(s.dir, name), data, 0o644))
	}
}

func joinLines(lines []string) (text string) {
	for _, l := range lines {
		text += l + "\n"
	}
	return text
}
