package gangs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/plugin/gangs"
	"github.com/gangline/gangline/plugin/plugintest"
	"github.com/gangline/gangline/translate/wellknown"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func names(all []gangs.Gang) map[string][]string {
	m := map[string][]string{}
	for _, g := range all {
		for _, p := range g.Pods {
			m[g.Namespace+" "+g.Ref()+" "+g.Key] = append(m[g.Namespace+" "+g.Ref()+" "+g.Key], p.Name)
		}
	}
	return m
}

func TestGroup(t *testing.T) {
	pod := plugintest.Pod
	cases := map[string]struct {
		pods []*corev1.Pod
		want map[string][]string
	}{
		"the node's word counts, in the order of ranks": {
			[]*corev1.Pod{
				pod("b").Gang("jobset/u/0", "JobSet/pi").Rank("1", "2").Obj(),
				pod("a").Gang("jobset/u/0", "JobSet/pi").Rank("0", "2").Obj(),
			},
			map[string][]string{"default jobset/pi jobset/u/0": {"a", "b"}},
		},
		"a TrainJob is known by its pods' labels": {
			[]*corev1.Pod{pod("a").Gang("jobset/u/0", "JobSet/pi").Label("trainer.kubeflow.org/trainjob-ancestor-step", "trainer").Obj()},
			map[string][]string{"default trainjob/pi jobset/u/0": {"a"}},
		},
		"a pod that the node has not seen joins its owner's gang": {
			[]*corev1.Pod{
				pod("new").JobSet("pi").Obj(),
				pod("old").Gang("jobset/u/0", "JobSet/pi").JobSet("pi").Obj(),
			},
			map[string][]string{"default jobset/pi jobset/u/0": {"new", "old"}},
		},
		"but which of two stages is not known": {
			[]*corev1.Pod{
				pod("one").Gang("jobset/u/0", "JobSet/pi").Obj(), pod("two").Gang("jobset/u/1", "JobSet/pi").Obj(), pod("new").JobSet("pi").Obj(),
			},
			map[string][]string{"default jobset/pi jobset/u/0": {"one"}, "default jobset/pi jobset/u/1": {"two"}, "default jobset/pi ": {"new"}},
		},
		"gangs of one key in two namespaces are two": {
			[]*corev1.Pod{pod("a").Gang("k", "JobSet/pi").Obj(), pod("b").Namespace("other").Gang("k", "JobSet/pi").Obj()},
			map[string][]string{"default jobset/pi k": {"a"}, "other jobset/pi k": {"b"}},
		},
		"others' pods are left out": {
			[]*corev1.Pod{pod("web").Elsewhere().Obj(), pod("ours").Obj()},
			map[string][]string{"default pod/ours ": {"ours"}},
		},
		"pods of another virtual node are left out": {
			[]*corev1.Pod{pod("azure").On("other").Phase(corev1.PodRunning).Obj()},
			map[string][]string{},
		},
		"an annotated gang": {
			[]*corev1.Pod{pod("a").Annotation(wellknown.AnnotationGangName, "ring").Obj(), pod("b").Annotation(wellknown.AnnotationGangName, "ring").Obj()},
			map[string][]string{"default gang/ring ": {"a", "b"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, names(gangs.Group(c.pods))) })
	}
}

func TestTheNewestJobIsTheGangs(t *testing.T) {
	pod := plugintest.Pod
	g := gangs.Group([]*corev1.Pod{
		pod("old").Gang("k", "JobSet/pi").Rank("0", "2").Job("7", noon).Phase(corev1.PodFailed).Obj(),
		pod("new").Gang("k", "JobSet/pi").Rank("0", "3").Job("8", noon.Add(time.Minute)).On("hpc").HPCNode("hpc1").Phase(corev1.PodRunning).Obj(),
	})
	require.Len(t, g, 1)
	assert.Equal(t, "8", g[0].JobID)
	assert.Equal(t, 3, g[0].Size)
	assert.Equal(t, 1, g[0].Ready)
	assert.Equal(t, gangs.Running, g[0].State)
	assert.Equal(t, "hpc", g[0].VirtualNode)
	assert.Equal(t, []string{"hpc1"}, g[0].HPCNodes)
	assert.True(t, g[0].Submitted.Time.Equal(noon.Add(time.Minute)))
}

// JobSet removes the workers of an MPI TrainJob when its launcher has completed.
func TestPodsThatWereRemovedStillCount(t *testing.T) {
	launcher := func(phase corev1.PodPhase) []gangs.Gang {
		return gangs.Group([]*corev1.Pod{
			plugintest.Pod("pi-launcher-0-0-x").Gang("k", "JobSet/pi").Rank("0", "4").Job("7", noon).Created(noon.Add(time.Minute)).HPCNode("hpc4").Phase(phase).Obj(),
		})
	}
	g := launcher(corev1.PodSucceeded)[0]
	assert.Equal(t, gangs.Completed, g.State)
	assert.Equal(t, 4, g.Size)
	assert.Equal(t, 4, g.Ready, "all have completed")
	assert.Equal(t, 3, g.Removed())
	assert.True(t, g.Created.Time.Equal(noon), "the gang is no younger than its job")

	g = launcher(corev1.PodFailed)[0]
	assert.Equal(t, 0, g.Ready)
	assert.Equal(t, 3, g.Removed())
	assert.Zero(t, launcher(corev1.PodRunning)[0].Removed(), "those of a gang that runs are yet to come")
}

func TestAJobMeansItsPods(t *testing.T) {
	all := gangs.Group([]*corev1.Pod{
		plugintest.Pod("h3-abcde").Gang("pod/1", "Pod/h3-abcde").Label("batch.kubernetes.io/job-name", "h3").Obj(),
		plugintest.Pod("h3-fghij").Gang("pod/2", "Pod/h3-fghij").Label("batch.kubernetes.io/job-name", "h3").Obj(),
		plugintest.Pod("other").Gang("pod/3", "Pod/other").Obj(),
	})
	for _, words := range [][]string{{"h3"}, {"job/h3"}, {"jobs.batch", "h3"}} {
		ref, err := gangs.ParseRef(words...)
		require.NoError(t, err)
		assert.Len(t, gangs.Select(all, ref), 2, words)
	}
}

func TestStateOf(t *testing.T) {
	pod := func() *plugintest.Builder { return plugintest.Pod("p").Gang("k", "Pod/p").On("hpc") }
	cases := map[string]struct {
		pod     *corev1.Pod
		state   gangs.State
		reason  string
		message string
	}{
		"no node": {
			plugintest.Pod("p").Unscheduled("Unschedulable", "0/1 nodes are available").Obj(),
			gangs.Unscheduled, "Unschedulable", "0/1 nodes are available",
		},
		"bound, not looked at": {plugintest.Pod("p").On("hpc").Obj(), gangs.Forming, "", ""},
		"waits for its gang":   {pod().Says("WaitingForGang", "1 of 2 pods").Obj(), gangs.Forming, "WaitingForGang", "1 of 2 pods"},
		"not taken":            {pod().Says("SubmissionFailed", "no").Obj(), gangs.Submitting, "SubmissionFailed", "no"},
		"in the queue":         {pod().Says("Queued", "Slurm job 7 is PENDING").Obj(), gangs.Queued, "Queued", "Slurm job 7 is PENDING"},
		"has nodes":            {pod().Says("Starting", "x").Obj(), gangs.Starting, "Starting", "x"},
		"its container waits": {
			pod().Waiting("CreateContainerConfigError", `secret "s" not found`).Obj(), gangs.Starting, "CreateContainerConfigError", `secret "s" not found`,
		},
		"runs":        {pod().Phase(corev1.PodRunning).Obj(), gangs.Running, "", ""},
		"crash loop":  {pod().Phase(corev1.PodRunning).Waiting("CrashLoopBackOff", "back-off").Obj(), gangs.Running, "CrashLoopBackOff", "back-off"},
		"deleted":     {pod().Phase(corev1.PodRunning).Deleted(noon).Obj(), gangs.Stopping, "", ""},
		"succeeded":   {pod().Phase(corev1.PodSucceeded).Obj(), gangs.Completed, "", ""},
		"failed":      {pod().Phase(corev1.PodFailed).Terminated(noon, 3, "Error").Obj(), gangs.Failed, "Error", "container main ended with exit code 3"},
		"node failed": {pod().Phase(corev1.PodFailed).Says("NodeFailure", "gone").Obj(), gangs.Failed, "NodeFailure", "gone"},
		"refused":     {plugintest.Pod("p").Phase(corev1.PodFailed).Says("NoCommand", "Pod was rejected: no").Obj(), gangs.Refused, "NoCommand", "no"},
		"refused, of a ReplicaSet": {
			pod().Says("NoCommand", "Pod was rejected: no").Obj(), gangs.Refused, "NoCommand", "no",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state, reason, message := gangs.StateOf(c.pod)
			assert.Equal(t, c.state, state)
			assert.Equal(t, c.reason, reason)
			assert.Equal(t, c.message, message)
		})
	}
}

func TestAGangsState(t *testing.T) {
	pod := func(name string) *plugintest.Builder { return plugintest.Pod(name).Gang("k", "JobSet/pi").On("hpc") }
	cases := map[string]struct {
		pods   []*corev1.Pod
		state  gangs.State
		reason string
	}{
		"as far as the furthest": {[]*corev1.Pod{pod("a").Says("Queued", "").Obj(), pod("b").Phase(corev1.PodRunning).Obj()}, gangs.Running, ""},
		"not by those that have ended": {
			[]*corev1.Pod{pod("a").Says("Queued", "").Obj(), pod("b").Phase(corev1.PodFailed).Says("NodeFailure", "").Obj()}, gangs.Queued, "Queued",
		},
		"all have completed": {[]*corev1.Pod{pod("a").Phase(corev1.PodSucceeded).Obj(), pod("b").Phase(corev1.PodSucceeded).Obj()}, gangs.Completed, ""},
		"one has failed":     {[]*corev1.Pod{pod("a").Phase(corev1.PodSucceeded).Obj(), pod("b").Phase(corev1.PodFailed).Terminated(noon, 1, "Error").Obj()}, gangs.Failed, "Error"},
		"the first failure explains": {
			[]*corev1.Pod{
				pod("a").Phase(corev1.PodFailed).Terminated(noon.Add(time.Second), 143, "Error").Obj(),
				pod("b").Phase(corev1.PodFailed).Terminated(noon, 137, "OOMKilled").Obj(),
			}, gangs.Failed, "OOMKilled",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := gangs.Group(c.pods)
			require.Len(t, all, 1)
			assert.Equal(t, c.state, all[0].State)
			assert.Equal(t, c.reason, all[0].Reason)
		})
	}
}

func TestShortReason(t *testing.T) {
	for message, want := range map[string]string{
		"Slurm job 7 is PENDING (Resources): it is next":                         "Resources",
		"Slurm job 7 is PENDING (ReqNodeNotAvail, UnavailableNodes:hpc1): nodes": "ReqNodeNotAvail, UnavailableNodes:hpc1",
		"Slurm job 7 is submitted":                                               "",
	} {
		assert.Equal(t, want, gangs.Gang{State: gangs.Queued, Reason: "Queued", Message: message}.ShortReason(), message)
	}
	assert.Equal(t, "3 of 4 pods", gangs.Gang{Reason: "WaitingForGang", Message: "3 of 4 pods; missing: a (it does not exist)"}.ShortReason())
	assert.Equal(t, "WaitingForGang", gangs.Gang{Reason: "WaitingForGang", Message: "the PodGroup x does not exist"}.ShortReason())
	assert.Equal(t, "NodeFailure", gangs.Gang{State: gangs.Failed, Reason: "NodeFailure"}.ShortReason())
}

func TestRefs(t *testing.T) {
	cases := map[string]struct {
		words []string
		want  gangs.Ref
		fails string
	}{
		"a name":              {[]string{"pi"}, gangs.Ref{Name: "pi"}, ""},
		"a kind and a name":   {[]string{"tj/pi"}, gangs.Ref{Kind: "TrainJob", Name: "pi"}, ""},
		"in two words":        {[]string{"pod", "pi-0"}, gangs.Ref{Kind: "Pod", Name: "pi-0"}, ""},
		"as kubectl has it":   {[]string{"jobset.jobset.x-k8s.io/pi"}, gangs.Ref{Kind: "JobSet", Name: "pi"}, ""},
		"a kind without gang": {[]string{"deployment/x"}, gangs.Ref{}, "no kind that makes gangs"},
		"no name":             {[]string{"pod/"}, gangs.Ref{}, "names no gang"},
		"too much":            {[]string{"a/b/c"}, gangs.Ref{}, "names no gang"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ref, err := gangs.ParseRef(c.words...)
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, ref)
		})
	}
}

func TestSelect(t *testing.T) {
	pod := plugintest.Pod
	all := gangs.Group([]*corev1.Pod{
		pod("pi-0").Gang("k0", "JobSet/pi").Obj(), pod("pi-1").Gang("k1", "JobSet/pi").Obj(),
		pod("other").Gang("k2", "JobSet/other").Label("trainer.kubeflow.org/x", "").Obj(), pod("pi").Gang("k3", "Pod/pi").Obj(),
		pod("w").Gang("k4", "MPIJob/w-job").Obj(),
	})
	for text, want := range map[string][]string{
		"pi":             {"k0", "k1", "k3"},
		"jobset/pi":      {"k0", "k1"},
		"trainjob/pi":    {"k0", "k1"},
		"jobset/other":   {"k2"},
		"pod/pi":         {"k3"},
		"pod/pi-1":       {"k1"},
		"pi-1":           {"k1"},
		"gang/w":         {"k4"},
		"mpijob/w-job":   {"k4"},
		"podgroup/w-job": nil,
		"none":           nil,
	} {
		ref, err := gangs.ParseRef(text)
		require.NoError(t, err)
		var keys []string
		for _, g := range gangs.Select(all, ref) {
			keys = append(keys, g.Key)
		}
		assert.ElementsMatch(t, want, keys, text)
	}
}

func TestHostlist(t *testing.T) {
	for _, c := range []struct {
		hosts []string
		want  string
	}{
		{nil, ""},
		{[]string{"hpc3", "hpc1", "hpc2", "hpc7"}, "hpc[1-3,7]"},
		{[]string{"hpc09", "hpc10", "hpc11"}, "hpc[09-11]"},
		{[]string{"hpc01", "hpc1"}, "hpc01,hpc1"},
		{[]string{"login", "gpu1", "login2"}, "login,gpu1,login2"},
		{[]string{"n99999999999"}, "n99999999999"},
	} {
		assert.Equal(t, c.want, gangs.Hostlist(c.hosts))
	}
}

func TestCreatedIsTheFirstPods(t *testing.T) {
	a, b := plugintest.Pod("a").Gang("k", "JobSet/pi").Obj(), plugintest.Pod("b").Gang("k", "JobSet/pi").Obj()
	a.CreationTimestamp, b.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour)), metav1.NewTime(noon)
	assert.True(t, gangs.Group([]*corev1.Pod{a, b})[0].Created.Equal(&b.CreationTimestamp))
}
