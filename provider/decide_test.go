package provider

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testUser is a user whose spool is a directory of the test's.
func testUser(root string) *hpcUser {
	return &hpcUser{name: "u", site: site.Local{}, root: spool.Root(root)}
}

// ownerOf is the user of an allocation of such a user's.
func ownerOf(a *allocation) *hpcUser {
	return testUser(filepath.Dir(filepath.Dir(string(a.dir))))
}

// scene builds a gang's state for one decision: two workers and a late
// launcher, with whatever the test adds.
type scene struct {
	t *testing.T
	s *state
}

func newScene(t *testing.T) *scene {
	pod := translatetest.MakePod("p").Request(corev1.ResourceCPU, "4").Obj()
	js := translatetest.MakeJobSet("pi").Jobs("worker", 1, 2, pod).
		Jobs("launcher", 1, 1, pod).DependsOn("worker", jobset.DependencyReady).Obj()
	gang := translate.JobSetGang(js, 0, translate.Options{
		Selects: func(corev1.PodSpec) bool { return true }, GPUResource: "nvidia.com/gpu",
	})
	return &scene{t: t, s: &state{key: gang.Key, now: testNow, gang: gang, slots: gang.Slots, note: &note{}}}
}

func (c *scene) worker(index int) *podState   { return c.add("worker", index) }
func (c *scene) launcher() *podState          { return c.add("launcher", 0) }
func (c *scene) decide() *state               { c.s.decideWith("Slurm", hpcView{}, 2*time.Minute); return c.s }
func (c *scene) after(d time.Duration) *state { c.s.now = c.s.now.Add(d); return c.decide() }

func (c *scene) add(group string, index int) *podState {
	pod := translatetest.MakePod(group).Obj()
	pod.UID = types.UID(group + string(rune('0'+index)) + string(rune('a'+len(c.s.pods))))
	pod.Finalizers = []string{wellknown.Finalizer}
	p := &podState{pod: pod, role: translate.Role{Group: group, Index: index}, slot: -1, sealed: true}
	c.s.pods = append(c.s.pods, p)
	return p
}

// allocated gives the gang a submitted allocation whose job the workload
// manager lists as given.
func (c *scene) allocated(phase wlm.Phase) *allocation {
	a, err := newAllocation(c.t.Context(), testUser(c.t.TempDir()), keySource{}.seal, c.names(), c.s.gang, 1, false, "")
	require.NoError(c.t, err)
	c.s.file = func(path string, v any) (bool, error) { return a.read(c.t.Context(), path, v) }
	a.job = &spool.Job{ID: "7", Submitted: testNow.Add(-time.Minute)}
	c.s.alloc, c.s.slots, c.s.listed = a, slotsOf(a.gang), testNow
	c.s.reports = make([]spool.Status, len(a.gang.Slots))
	c.s.job = &wlm.Job{ID: "7", Name: a.name(), State: string(phase), Phase: phase}
	return a
}

// started makes the pod one whose orders the agent of slot k has.
func (c *scene) started(p *podState, k int) {
	c.s.alloc.desired[k] = spool.Desired{PodUID: string(p.uid()), Action: spool.ActionRun}
	c.s.reports[k] = spool.Status{
		Agent: spool.Agent{Instance: "i", Address: "10.0.0.1"},
		Pod:   &spool.PodStatus{UID: string(p.uid()), Started: testNow},
	}
}

func (c *scene) finished(p *podState, k int, code int32) {
	c.started(p, k)
	c.s.reports[k].Pod.Done = true
	c.s.reports[k].Pod.Containers = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
	}}
}

func (c *scene) names() translate.Names { return translate.Names{Cluster: "c", Node: "n"} }

func deleted(p *podState, grace int64) *podState {
	p.pod.DeletionTimestamp = ptr.To(metav1.NewTime(testNow))
	p.pod.DeletionGracePeriodSeconds = ptr.To(grace)
	return p
}

func TestNothingIsSubmittedBeforeTheFirstPodsAreThere(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	s := c.decide()
	assert.False(t, s.mustSubmit())
	text := s.waitingText()
	assert.Equal(t, wellknown.ReasonWaitingForGang, text.Reason)
	assert.Equal(t, "1 of 2 pods; missing: pi-worker-0-1", text.Message)

	c.worker(1)
	assert.True(t, c.decide().mustSubmit(), "the launcher comes only when the workers are Ready")
}

func TestPodsThatGoDoNotFillTheirPlaces(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	deleted(c.worker(1), 30)
	assert.False(t, c.decide().mustSubmit())
}

func TestASuspendedOwnerGetsNoAllocation(t *testing.T) {
	c := newScene(t)
	c.worker(0)
	c.worker(1)
	c.s.owner.suspended = true
	assert.False(t, c.decide().mustSubmit())
}

func TestALateAndAReplacedPodGetTheirReservedSlots(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	first, second := c.worker(0), c.worker(1)
	c.started(first, 0)
	c.finished(second, 1, 1)
	second.pod.Status.Phase = corev1.PodFailed
	late, again := c.launcher(), c.worker(1)
	s := c.decide()
	assert.Equal(t, 2, late.slot)
	assert.Equal(t, 1, again.slot, "the place of the pod that failed")
	assert.False(t, s.releasing)
}

func TestAPodWaitsForAPlaceThatIsStillHeld(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	c.started(deleted(c.worker(0), 30), 0)
	c.started(c.worker(1), 1)
	again := c.worker(0)
	c.decide()
	assert.Equal(t, -1, again.slot)
	assert.Equal(t, wellknown.ReasonWaitingForSlot, again.waiting.Reason)
}

func TestRelease(t *testing.T) {
	cases := map[string]struct {
		prepare func(c *scene)
		after   time.Duration
		want    bool
	}{
		"not while a pod runs": {
			prepare: func(c *scene) { c.started(c.worker(0), 0) }, after: time.Hour, want: false,
		},
		"not while a deleted pod still stops": {
			prepare: func(c *scene) {
				c.started(deleted(c.worker(0), 30), 0)
				c.s.owner.gone = true
			}, after: 30 * time.Second, want: false,
		},
		"not at once when the owner may restart": {
			prepare: func(*scene) {}, want: false,
		},
		"after the grace period": {
			prepare: func(*scene) {}, after: 3 * time.Minute, want: true,
		},
		"when an agent does not stop a pod long after its time": {
			prepare: func(c *scene) {
				c.started(deleted(c.worker(0), 30), 0)
				c.s.alloc.desired[0].Action = spool.ActionStop
			}, after: 2 * time.Minute, want: true,
		},
		"not because a pod was to be deleted long ago, and nobody had told its agent": {
			prepare: func(c *scene) {
				p := deleted(c.worker(0), 30)
				p.pod.DeletionTimestamp = ptr.To(metav1.NewTime(testNow.Add(-time.Hour)))
				c.started(p, 0)
			}, want: false,
		},
		"at once when the owner is gone":      {prepare: func(c *scene) { c.s.owner.gone = true }, want: true},
		"at once when the owner is suspended": {prepare: func(c *scene) { c.s.owner.suspended = true }, want: true},
		"at once when the owner has finished": {prepare: func(c *scene) { c.s.owner.finished = true }, want: true},
		"at once when nobody brings new pods": {
			prepare: func(c *scene) { c.s.gang.Refills, c.s.alloc.gang.Refills = false, false }, want: true,
		},
		"not at once when more pods of the same Job are to come": {
			prepare: func(c *scene) {
				c.s.gang.Waves = true
				c.finished(c.worker(0), 0, 0)
				c.finished(c.worker(1), 1, 0)
				c.finished(c.launcher(), 2, 0)
			}, want: false,
		},
		"at once when all have succeeded": {
			prepare: func(c *scene) {
				c.finished(c.worker(0), 0, 0)
				c.finished(c.worker(1), 1, 0)
				c.finished(c.launcher(), 2, 0)
			}, want: true,
		},
		"not at once when one has failed": {
			prepare: func(c *scene) {
				c.finished(c.worker(0), 0, 0)
				c.finished(c.worker(1), 1, 1)
				c.finished(c.launcher(), 2, 0)
			}, want: false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newScene(t)
			c.allocated(wlm.PhaseRunning)
			tc.prepare(c)
			got := c.decide().releasing
			if tc.after > 0 {
				got = c.after(tc.after).releasing
			}
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestAPodDeletedInTheQueueStaysUntilTheJobIsGone(t *testing.T) {
	c := newScene(t)
	a := c.allocated(wlm.PhaseQueued)
	p := deleted(c.worker(0), 30)
	c.s.owner.gone = true
	s := c.decide()
	assert.True(t, s.releasing)
	assert.False(t, p.over, "nobody would be left to see that the job goes")

	c.s.job.Phase, c.s.job.Outcome, c.s.job.State = wlm.PhaseEnded, wlm.OutcomeCancelled, "CANCELLED"
	a.gang.Release = true
	s = c.after(3 * time.Second)
	require.NotNil(t, s.ending)
	assert.True(t, p.over)
}

func TestOneOfManyDeletedInTheQueueGoesAtOnce(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseQueued)
	p := deleted(c.worker(0), 30)
	c.worker(1)
	c.decide()
	assert.True(t, p.over)
}

func TestStopCarriesTheGraceOfTheDeletion(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := deleted(c.worker(0), 7)
	c.started(p, 0)
	c.decide()
	assert.True(t, p.stop)
	assert.EqualValues(t, 7, p.grace)
	assert.False(t, p.over)
}

func TestActiveDeadlineCountsFromTheStart(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	p := c.worker(0)
	p.pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	c.started(p, 0)
	c.decide()
	assert.False(t, p.stop, "the queue's time is not counted")
	p.pod.Status.StartTime = ptr.To(metav1.NewTime(testNow))
	s := c.after(59 * time.Second)
	assert.False(t, p.stop)
	assert.LessOrEqual(t, s.recheck, time.Second)
	c.after(2 * time.Second)
	assert.True(t, p.stop)
	assert.Equal(t, wellknown.ReasonDeadline, p.ending.Reason)
}

func TestWaitingTextChangesSeldom(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseQueued)
	c.worker(0)
	c.s.job.State, c.s.job.Reason = "PENDING", "Priority"
	assert.Equal(t, "Slurm job 7 is PENDING (Priority)", c.decide().waitingText().Message)
	c.s.job.Reason = "Resources"
	assert.Equal(t, "Slurm job 7 is PENDING (Priority)", c.after(time.Second).waitingText().Message)
	assert.Equal(t, "Slurm job 7 is PENDING (Resources)", c.after(shownAtMost).waitingText().Message)
	c.s.job.Submitted = c.s.now.Add(-time.Hour)
	c.s.job.Reason = "Priority"
	assert.Equal(t, "Slurm job 7 is PENDING (Resources)", c.after(shownAtMost).waitingText().Message, "after an hour it matters less")
	assert.Equal(t, "Slurm job 7 is PENDING (Priority)", c.after(shownAtLast).waitingText().Message)
}

func TestTheFirstListingOfAJobIsShownAtOnce(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseQueued)
	c.worker(0)
	job := c.s.job
	c.s.job = nil
	assert.Equal(t, "Slurm job 7 is submitted", c.decide().waitingText().Message)
	c.s.job = job
	job.State, job.Reason = "PENDING", "Priority"
	assert.Equal(t, "Slurm job 7 is PENDING (Priority)", c.after(time.Second).waitingText().Message)
}

func TestWishesThatContradictAreRefused(t *testing.T) {
	c := newScene(t)
	first, second, third := c.worker(0), c.worker(1), c.launcher()
	for _, p := range []*podState{first, second, third} {
		p.pod.Finalizers = nil // not accepted yet
	}
	first.pod.Annotations = map[string]string{wellknown.AnnotationQOS: "high"}
	second.pod.Annotations = map[string]string{wellknown.AnnotationQOS: "low"}
	s := c.decide()
	assert.Nil(t, first.rejection)
	require.NotNil(t, second.rejection)
	assert.Contains(t, second.rejection.Message, "gangline.dev/qos")
	assert.Nil(t, third.rejection)
	assert.Equal(t, "high", s.wishes.QOS)
}
