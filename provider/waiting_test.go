package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestAWaitingJobIsExplained(t *testing.T) {
	for sentence, c := range map[string]struct {
		job  *wlm.Job
		want string
	}{
		"it was just submitted": {nil, "Slurm job 7 is submitted"},
		"with a reason, its meaning and an expected start": {
			&wlm.Job{State: "PENDING", Reason: "Priority", Explanation: "others are before it", Phase: wlm.PhaseQueued, ExpectedStart: testNow.Add(time.Hour)},
			"Slurm job 7 is PENDING (Priority): others are before it; expected to start at 2026-01-02T04:04:00Z",
		},
		"a start that should have been is not shown": {
			&wlm.Job{State: "PENDING", Phase: wlm.PhaseQueued, ExpectedStart: testNow.Add(-time.Second)}, "Slurm job 7 is PENDING",
		},
		"it has its nodes": {
			&wlm.Job{State: "CONFIGURING", Reason: "None", Phase: wlm.PhaseStarting, Nodes: "hpc[1-2]", ExpectedStart: testNow.Add(time.Hour)},
			"Slurm job 7 is CONFIGURING on hpc[1-2]",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, c.want, jobWaiting("Slurm", "7", c.job, nil, testNow).Message)
		})
	}
}

func TestAnExpectedStartIsRounded(t *testing.T) {
	at := func(s int) string {
		return expectedStart(&wlm.Job{Phase: wlm.PhaseQueued, ExpectedStart: testNow.Add(time.Duration(s) * time.Second)}, testNow)
	}
	assert.Equal(t, "2026-01-02T03:05:00Z", at(60))
	assert.Equal(t, at(60), at(70), "a few seconds more are no news")
	assert.Empty(t, expectedStart(nil, testNow))
}

func TestAGangWaitsForThoseThatItDependsOn(t *testing.T) {
	d := func(kind, name string) translate.Dependency {
		return translate.Dependency{Type: kind, Kind: "JobSet", Name: name}
	}
	gangs := map[string][]predecessor{
		"running": {{job: "7"}}, "stages": {{job: "8", outcome: "Completed"}, {job: "9"}}, "done": {{job: "1", outcome: "Completed"}},
		"failed": {{job: "2", outcome: "Failed"}}, "forming": {{}}, "self": {{itself: true}},
	}
	for sentence, c := range map[string]struct {
		wishes         []translate.Dependency
		option, awaits string
	}{
		"what runs is left to the workload manager": {[]translate.Dependency{d("afterok", "running")}, "afterok:7", ""},
		"types are kept together": {
			[]translate.Dependency{d("afterok", "running"), d("afterany", "stages"), d("afterok", "stages")}, "afterok:7:9,afterany:9", "",
		},
		"what has ended well is no condition any more": {[]translate.Dependency{d("afterok", "done"), d("afterany", "failed"), d("afternotok", "failed")}, "", ""},
		"what has failed has to run again":             {[]translate.Dependency{d("afterok", "failed")}, "", "ended in another way (failed)"},
		"what should have failed":                      {[]translate.Dependency{d("afternotok", "done")}, "", "ended in another way (completed)"},
		"what does not exist is waited for":            {[]translate.Dependency{d("afterok", "nobody")}, "", "depends on JobSet/nobody, of which there is no job yet"},
		"what is not submitted is waited for":          {[]translate.Dependency{d("after", "forming")}, "", "is not submitted yet"},
		"a gang does not wait for itself unnoticed":    {[]translate.Dependency{d("afterok", "self")}, "", "which is itself"},
	} {
		t.Run(sentence, func(t *testing.T) {
			option, awaits := resolveDependencies(c.wishes, func(d translate.Dependency) []predecessor { return gangs[d.Name] })
			assert.Equal(t, c.option, option)
			assert.Contains(t, awaits, c.awaits)
			assert.Equal(t, c.awaits == "", awaits == "")
		})
	}
}

func TestTheTimeLimitIsAnnounced(t *testing.T) {
	c := newScene(t)
	c.allocated(wlm.PhaseRunning)
	c.s.job.Started, c.s.job.LimitEnd = testNow.Add(-time.Hour), testNow.Add(time.Minute)
	p := c.begun(c.worker(0)) // 9 s of grace
	c.decide()
	assert.False(t, p.stop, "it has time enough")
	assert.LessOrEqual(t, c.s.recheck, time.Minute-14*time.Second)

	for sentence, wish := range map[string]struct {
		pod, site time.Duration
		stop      bool
	}{
		"the pod's wish":              {5 * time.Minute, 0, true},
		"the site's choice":           {0, 5 * time.Minute, true},
		"the pod wants less":          {10 * time.Second, 5 * time.Minute, false},
		"the pod wants none":          {translate.NoTimeLimitWarning, 5 * time.Minute, false},
		"the site wants none":         {0, -1, false},
		"longer than the half of all": {24 * time.Hour, 0, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := newScene(t)
			c.allocated(wlm.PhaseRunning)
			c.s.job.Started, c.s.job.LimitEnd = testNow.Add(-time.Hour), testNow.Add(time.Minute)
			p, late := c.begun(c.worker(0)), c.worker(1)
			for _, q := range c.s.pods {
				q.pod.Annotations = map[string]string{}
				switch {
				case wish.pod > 0:
					q.pod.Annotations[wellknown.AnnotationTimeLimitWarning] = wish.pod.String()
				case wish.pod < 0:
					q.pod.Annotations[wellknown.AnnotationTimeLimitWarning] = "0"
				}
			}
			c.s.decideWith("Slurm", hpcView{limitWarning: wish.site}, 2*time.Minute)
			assert.Equal(t, wish.stop, p.stop)
			if wish.stop {
				assert.EqualValues(t, 58, p.grace, "all the time that is left")
				assert.Equal(t, wellknown.ReasonDeadline, p.ending.Reason)
				assert.False(t, p.ending.Disruption, "the limit is the user's")
				assert.Equal(t, wellknown.ReasonWaitingForSlot, late.waiting.Reason, "no pod begins now")
			}
		})
	}
}

func TestHalfOfTheTimeIsThePods(t *testing.T) {
	job := wlm.Job{Started: testNow, LimitEnd: testNow.Add(10 * time.Minute)}
	assert.Equal(t, testNow.Add(9*time.Minute), warnAt(job, time.Minute))
	assert.Equal(t, testNow.Add(5*time.Minute), warnAt(job, time.Hour))
}

func TestWhoeverSavesHisWorkInTimeHasSucceeded(t *testing.T) {
	for sentence, c := range map[string]struct {
		code     int32
		exceeded bool
	}{"exit code 0": {0, false}, "ended by the signal": {143, true}} {
		t.Run(sentence, func(t *testing.T) {
			scene := newScene(t)
			a := scene.allocated(wlm.PhaseRunning)
			scene.s.job.Started, scene.s.job.LimitEnd = testNow.Add(-time.Hour), testNow.Add(time.Second)
			p := scene.begun(scene.worker(0))
			scene.finished(p, 0, c.code)
			a.pods[p.uid()] = 0
			d := a.desired[0]
			d.Action = spool.ActionStop
			a.desired[0] = d
			s := scene.decide()
			assert.True(t, p.over)
			assert.Equal(t, c.exceeded, p.ended() != nil)
			assert.True(t, s.releasing, "its time is up")
		})
	}
}

func TestTheExpectedStartIsAsPreciseAsItIsNear(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]string{
		-time.Second:                     "",
		40 * time.Second:                 "2026-03-01T12:01:00Z",
		90*time.Minute + 20*time.Second:  "2026-03-01T13:30:00Z",
		3*time.Hour + 6*time.Minute:      "2026-03-01T15:10:00Z",
		49*time.Hour + 20*time.Minute:    "2026-03-03T13:00:00Z",
		365*24*time.Hour + 5*time.Minute: "2027-03-02T00:00:00Z",
	} {
		assert.Equal(t, want, expectedStart(&wlm.Job{Phase: wlm.PhaseQueued, ExpectedStart: now.Add(ahead)}, now), "%s ahead", ahead)
	}
}
