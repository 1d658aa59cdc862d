package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/plugin/follow"
	"github.com/gangline/gangline/plugin/plugintest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// site is an API server with logs. A run's log can be cut: then the next stream of it
// breaks there.
type site struct {
	mu   sync.Mutex
	runs map[string][]*run
	asks []corev1.PodLogOptions
	err  error
}

type run struct {
	lines []string // with their times
	cuts  []int    // after how many bytes answers break off, as complete ones do
	bare  bool     // the last line has no end
}

// log adds a run of a pod, whose lines are a fixed time apart.
func (s *site) log(pod string, from time.Duration, step time.Duration, texts ...string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &run{}
	for i, text := range texts {
		r.lines = append(r.lines, start.Add(from+time.Duration(i)*step).Format(time.RFC3339Nano)+" "+text)
	}
	if s.runs == nil {
		s.runs = map[string][]*run{}
	}
	s.runs[pod] = append(s.runs[pod], r)
	return r
}

func (s *site) Open(_ context.Context, pod *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = append(s.asks, *o)
	runs := s.runs[pod.Name]
	if s.err != nil {
		return nil, s.err
	}
	i := len(runs) - 1
	if o.Previous {
		i--
	}
	if i < 0 {
		return nil, apierrors.NewBadRequest("not found")
	}
	r := runs[i]
	var lines []string
	for _, line := range r.lines {
		at, err := time.Parse(time.RFC3339Nano, strings.Fields(line)[0])
		if err == nil && o.SinceTime != nil && at.Before(o.SinceTime.Truncate(time.Second)) {
			continue // the API has whole seconds
		}
		lines = append(lines, line+"\n")
	}
	if o.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*o.TailLines)):]
	}
	text := strings.Join(lines, "")
	if r.bare {
		text = strings.TrimSuffix(text, "\n")
	}
	if len(r.cuts) > 0 {
		text, r.cuts = text[:min(r.cuts[0], len(text))], r.cuts[1:]
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// console is where the lines go.
type console struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p)
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

func newFollower(t *testing.T, s *site, o follow.Options) (*follow.Follower, *console) {
	c := &console{}
	o.Prefix = func(pod *corev1.Pod, _ string) string { return pod.Name + "| " }
	if o.Trouble == nil {
		o.Trouble = func(_ *corev1.Pod, _ string, err error) { t.Log(err) }
	}
	return follow.New(t.Context(), s, follow.NewLines(c), o), c
}

func waitIdle(t *testing.T, f *follow.Follower) {
	t.Helper()
	for !f.Quiet() {
		select {
		case <-f.Idle():
		case <-f.Done():
			require.NoError(t, f.Err())
		case <-time.After(30 * time.Second):
			require.Fail(t, "the followers do not end")
		}
	}
}

func pod(name string) *plugintest.Builder { return plugintest.Pod(name).On("hpc") }

var main = []string{"main"}

func TestFollowUntilTheEnd(t *testing.T) {
	s := &site{}
	s.log("a", 0, time.Second, "one", "two")
	s.log("b", 0, time.Second, "eins")
	f, c := newFollower(t, s, follow.Options{})
	for _, name := range []string{"a", "b"} {
		f.See(pod(name).Phase(corev1.PodRunning).Started(start).Obj(), main)
		f.See(pod(name).Phase(corev1.PodSucceeded).Terminated(start, 0, "Completed").Obj(), main)
	}
	waitIdle(t, f)
	assert.ElementsMatch(t, []string{"a| one", "a| two", "b| eins"}, strings.Split(strings.TrimSpace(c.text()), "\n"))
}

func TestFollowGoesOnWhereAnAnswerBrokeOff(t *testing.T) {
	texts := []string{"1", "2 two", "3", "", "5", "6"}
	for _, bare := range []bool{false, true} {
		// Several lines of one time, and cuts anywhere in them: each line once.
		for _, step := range []time.Duration{0, time.Millisecond, time.Second} {
			t.Run(fmt.Sprint(bare, step), func(t *testing.T) {
				t.Parallel()
				s := &site{}
				f, c := newFollower(t, s, follow.Options{})
				var want []string
				for cut := 1; cut < 150; cut += 7 {
					name := fmt.Sprint("p", cut)
					r := s.log(name, 0, step, texts...)
					r.cuts, r.bare = []int{cut, cut + 10}, bare
					running := pod(name).Phase(corev1.PodRunning).Started(start).Obj()
					if cut%2 == 0 {
						f.See(running, main)
					}
					f.See(pod(name).Phase(corev1.PodFailed).Terminated(start, 1, "Error").Obj(), main)
					for _, text := range texts {
						want = append(want, name+"| "+text)
					}
				}
				waitIdle(t, f)
				assert.ElementsMatch(t, want, strings.Split(strings.TrimSuffix(c.text(), "\n"), "\n"))
			})
		}
	}
}

func TestFollowOverRestarts(t *testing.T) {
	s := &site{}
	s.log("a", 0, time.Second, "first run")
	f, c := newFollower(t, s, follow.Options{Tail: ptr.To[int64](0)})
	running := pod("a").Phase(corev1.PodRunning).Started(start)
	f.See(pod("a").Obj(), main) // before it started: all of it is new
	f.See(running.Obj(), main)
	assert.Eventually(t, func() bool { return c.text() == "a| first run\n" }, 20*time.Second, 10*time.Millisecond, "%s", c.text())

	// Two more runs begin before anybody looks.
	s.log("a", time.Minute, time.Second, "second run", "its end")
	s.log("a", 2*time.Minute, time.Second, "third run")
	f.See(running.Restarted(2, start, 1).Obj(), main)
	f.See(pod("a").Phase(corev1.PodFailed).Terminated(start, 1, "Error").Restarted(2, start, 1).Obj(), main)
	waitIdle(t, f)
	assert.Equal(t, "a| first run\na| second run\na| its end\na| third run\n", c.text())
}

func TestTailIsForWhatIsThere(t *testing.T) {
	s := &site{}
	s.log("old", 0, time.Second, "1", "2", "3")
	s.log("new", 0, time.Second, "4", "5", "6")
	f, c := newFollower(t, s, follow.Options{Tail: ptr.To[int64](1), Timestamps: true})
	f.See(pod("old").Phase(corev1.PodSucceeded).Terminated(start, 0, "Completed").Obj(), main)
	waitIdle(t, f)
	f.Late()
	f.See(pod("new").Phase(corev1.PodSucceeded).Terminated(start, 0, "Completed").Obj(), main)
	waitIdle(t, f)
	assert.Equal(t, `old| 2026-01-02T03:04:07Z 3
new| 2026-01-02T03:04:05Z 4
new| 2026-01-02T03:04:06Z 5
new| 2026-01-02T03:04:07Z 6
`, c.text())
}

func TestNoRightEndsEverything(t *testing.T) {
	s := &site{err: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no"))}
	f, _ := newFollower(t, s, follow.Options{})
	f.See(pod("a").Phase(corev1.PodRunning).Started(start).Obj(), main)
	<-f.Done()
	assert.True(t, apierrors.IsForbidden(f.Err()))
}

func TestAPodWhoseLogIsGoneIsGivenUp(t *testing.T) {
	s := &site{err: apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a")}
	var told []string
	f, c := newFollower(t, s, follow.Options{Trouble: func(pod *corev1.Pod, _ string, err error) { told = append(told, pod.Name) }})
	f.See(pod("a").Phase(corev1.PodFailed).Terminated(start, 1, "Error").Obj(), main)
	f.See(pod("never").Phase(corev1.PodFailed).Says("NoCommand", "").Obj(), main)
	gone := pod("gone").Obj()
	f.See(gone, main)
	f.Gone(gone.UID)
	waitIdle(t, f)
	assert.Equal(t, []string{"a"}, told)
	assert.Empty(t, c.text())
}

func TestRead(t *testing.T) {
	s := &site{}
	s.log("a", 0, time.Second, "before")
	s.log("a", 0, time.Second, "now")
	f, c := newFollower(t, s, follow.Options{Previous: true, Since: start})
	require.NoError(t, f.Read(pod("a").Obj(), "main"))
	assert.Equal(t, "a| 2026-01-02T03:04:05Z before\n", c.text(), "as it comes")
	assert.True(t, s.asks[0].Previous)
	assert.False(t, s.asks[0].Timestamps)
	assert.Equal(t, start, s.asks[0].SinceTime.Time)
}

// pipe is a log of any bytes.
type pipe struct{ text string }

func (p pipe) Open(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(p.text)), nil
}

func TestLinesAreWhole(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	c := &console{}
	lines := follow.NewLines(c)
	f := follow.New(t.Context(), pipe{strings.Repeat(long+"\n", 20) + "end"}, lines,
		follow.Options{Prefix: func(pod *corev1.Pod, _ string) string { return pod.Name + "| " }})
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() { assert.NoError(t, f.Read(pod(name).Obj(), "main")) })
	}
	wg.Wait()
	counts := map[string]int{}
	for line := range strings.Lines(c.text()) {
		counts[line]++
	}
	want := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		want[name+"| "+long+"\n"], want[name+"| end\n"] = 20, 1
	}
	assert.Equal(t, want, counts)
}

func TestALineWithoutEndIsCut(t *testing.T) {
	c := &console{}
	f := follow.New(t.Context(), pipe{strings.Repeat("x", 5<<20)}, follow.NewLines(c), follow.Options{Prefix: func(*corev1.Pod, string) string { return "" }})
	require.NoError(t, f.Read(pod("a").Obj(), "main"))
	assert.Equal(t, 5<<20, strings.Count(c.text(), "x"))
	assert.Equal(t, 5, strings.Count(c.text(), "\n"))
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAClosedOutputEndsEverything(t *testing.T) {
	s := &site{}
	s.log("a", 0, time.Second, "one")
	f := follow.New(t.Context(), s, follow.NewLines(closed{}), follow.Options{Prefix: func(*corev1.Pod, string) string { return "" }})
	f.See(pod("a").Phase(corev1.PodRunning).Started(start).Obj(), main)
	<-f.Done()
	assert.ErrorIs(t, f.Err(), io.ErrClosedPipe)
}
