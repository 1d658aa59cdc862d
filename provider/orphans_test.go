package provider

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gangline/gangline/provider/observe/metrics"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestWhatIsAnOrphan(t *testing.T) {
	names := translate.Names{Cluster: "c", Node: "n"}
	name := func(n translate.Names, nonce string) string {
		return translate.AllocationName(n, translate.Gang{Key: "k", OwnerName: "pi"}, 1, nonce)
	}
	known, lost := name(names, "known"), name(names, "lost")
	foreign := name(translate.Names{Cluster: "c", Node: "m"}, "x")
	job := func(id, name string) wlm.Job { return wlm.Job{ID: id, Name: name, User: "u", State: "RUNNING"} }
	for sentence, tc := range map[string]struct {
		jobs []wlm.Job
		dirs []string
		want []string
	}{
		"what is known is none":            {[]wlm.Job{job("1", known)}, []string{known}, nil},
		"a job without an allocation":      {[]wlm.Job{job("1", lost)}, nil, []string{"job 1 " + lost}},
		"two jobs of one name are two":     {[]wlm.Job{job("1", lost), job("2", lost)}, nil, []string{"job 1 " + lost, "job 2 " + lost}},
		"a directory without one":          {nil, []string{lost}, []string{"directory  " + lost}},
		"a directory waits for its job":    {[]wlm.Job{job("1", lost)}, []string{lost}, []string{"job 1 " + lost}},
		"another node's are not ours":      {[]wlm.Job{job("1", foreign)}, []string{foreign}, nil},
		"nor what a user has by that name": {[]wlm.Job{job("1", "pi-1")}, []string{"pi-1"}, nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			var got []string
			var dirs []spoolDir
			for _, d := range tc.dirs {
				dirs = append(dirs, spoolDir{"u", d})
			}
			for _, o := range findOrphans(names, tc.jobs, dirs, func(n string) bool { return n == known }) {
				got = append(got, o.Kind+" "+o.Job+" "+o.Name)
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

// orphanScene is a node with an empty registry, whose workload manager lists a job
// that bears its mark.
func orphanScene(t *testing.T, action string) (*Reconciler, *cancelling, *orphanTable, string) {
	names := translate.Names{Cluster: "c", Node: "n"}
	u := testUser(t.TempDir())
	m := &cancelling{}
	name := translate.AllocationName(names, translate.Gang{Key: "k", OwnerName: "pi"}, 1, "x")
	r := &Reconciler{manager: m, registry: newRegistry(names), people: &people{only: u.name, all: map[string]*acquaintance{u.name: {user: u}}}, jobs: &jobTable{
		byName: map[string][]wlm.Job{name: {{ID: "7", Name: name, User: "u", Phase: wlm.PhaseRunning, State: "RUNNING"}}}, at: testNow,
	}}
	config := Config{NodeName: "n", Orphans: OrphansConfig{Action: action, Grace: metav1.Duration{Duration: 10 * time.Minute}}}
	counted, err := metrics.NewNode(prometheus.NewRegistry(), metrics.Sources{})
	require.NoError(t, err)
	return r, m, newOrphanTable(config, record.NewFakeRecorder(10), counted), name
}

func TestAnOrphanIsCleanedAfterTheGracePeriod(t *testing.T) {
	r, m, o, name := orphanScene(t, OrphansClean)
	require.NoError(t, r.people.all["u"].user.root.Dir(name).Create(1))
	look := func(after time.Duration) {
		r.jobs.at = testNow.Add(after)
		r.cleanOrphans(t.Context(), o, testNow.Add(after))
	}
	look(0)
	look(9 * time.Minute)
	assert.Empty(t, m.asked)
	look(10 * time.Minute)
	assert.Equal(t, []string{"7"}, m.asked)
	assert.Len(t, o.recorder.(*record.FakeRecorder).Events, 1)
	r.cleanOrphans(t.Context(), o, testNow.Add(time.Hour))
	assert.Len(t, m.asked, 1, "nothing is cleaned by an old listing")

	r.jobs.byName = nil // it has ended
	look(11 * time.Minute)
	_, err := os.Stat(string(r.people.all["u"].user.root.Dir(name)))
	require.NoError(t, err, "the directory's time begins when its job has gone")
	look(21 * time.Minute)
	_, err = os.Stat(string(r.people.all["u"].user.root.Dir(name)))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestOrphansCanBeLeftAlone(t *testing.T) {
	r, m, o, _ := orphanScene(t, OrphansReport)
	for _, after := range []time.Duration{0, 10 * time.Minute, 20 * time.Minute} {
		r.jobs.at = testNow.Add(after)
		r.cleanOrphans(t.Context(), o, testNow.Add(after))
	}
	assert.Empty(t, m.asked)
	require.Len(t, o.recorder.(*record.FakeRecorder).Events, 1, "told once")
	assert.Contains(t, <-o.recorder.(*record.FakeRecorder).Events, "left alone")
}

func TestADirectoryWhoseNameLiesIsLeftAlone(t *testing.T) {
	r, _, _, name := orphanScene(t, OrphansClean)
	dir := r.people.all["u"].user.root.Dir(name)
	require.NoError(t, dir.Create(1))
	require.NoError(t, spool.Write(dir.Gang(), spool.Gang{Cluster: "another", Node: "n"}))
	assert.False(t, r.clean(t.Context(), r.people.all["u"].user, Orphan{Kind: KindDirectory, Name: name}))
	_, err := os.Stat(string(dir))
	assert.NoError(t, err)
}

func TestAPodWhoseAllocationTheSpoolHasForgottenNeverRunsAgain(t *testing.T) {
	c := newScene(t)
	names := translate.Names{Cluster: "c", Node: "n"}
	p := c.worker(0)
	c.worker(1)
	p.pod.Annotations = map[string]string{wellknown.AnnotationAllocation: translate.AllocationName(names, c.s.gang, 1, "x")}
	r := &Reconciler{registry: newRegistry(names), people: &people{only: "u"}, jobs: &jobTable{}}
	assert.Nil(t, r.lostPlaceOf(p), "nothing of it ever ran: it can be submitted again")
	p.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "gangline://x"}}
	p.lost = r.lostPlaceOf(p)
	require.NotNil(t, p.lost)
	p.lost.jobs = []wlm.Job{{ID: "7", Phase: wlm.PhaseRunning}}

	look := func(after time.Duration) {
		c.s.now = testNow.Add(after)
		p.lost.listed = c.s.now
		c.s.lose(time.Second)
		c.decide()
	}
	look(0)
	look(time.Minute)
	assert.False(t, p.over, "its job still runs")
	assert.False(t, c.s.mustSubmit(), "and it gets no other")
	p.lost.jobs = nil
	look(2 * time.Minute)
	require.True(t, p.over)
	assert.Equal(t, wellknown.ReasonAllocationLost, p.ending.Reason)
	assert.True(t, p.ending.Disruption)
}
