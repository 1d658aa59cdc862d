package translate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

const gpu = corev1.ResourceName("nvidia.com/gpu")

func options() translate.Options {
	return translate.Options{
		Selects:       func(spec corev1.PodSpec) bool { return spec.NodeSelector["hpc"] == "yes" },
		GPUResource:   gpu,
		ClusterDomain: "cluster.local",
	}
}

func hpcPod(cpus, gpus string) *translatetest.PodBuilder {
	b := translatetest.MakePod("p").Request(corev1.ResourceCPU, cpus).
		Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"hpc": "yes"} })
	if gpus != "0" {
		b = b.Limit(gpu, gpus)
	}
	return b
}

// places shows a gang's slots in a line each: role, and what is special.
func places(g translate.Gang) []string {
	var lines []string
	for _, s := range g.Slots {
		line := s.Role.String()
		if s.Rides {
			line += " rides"
		}
		if !s.First {
			line += " late"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestJobSetGang(t *testing.T) {
	worker, launcher := hpcPod("4", "2").Obj(), hpcPod("1", "0").Obj()
	elsewhere := translatetest.MakePod("p").Obj()
	cases := map[string]struct {
		jobSet *translatetest.JobSetBuilder
		stage  int
		want   []string
	}{
		"rank order is replicated job, job index, completion index": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("a", 2, 2, worker).Jobs("b", 1, 1, worker),
			want:   []string{"a/0/0", "a/0/1", "a/1/0", "a/1/1", "b/0/0"},
		},
		"a launcher that waits for Ready workers has a late slot in the same gang": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("worker", 1, 2, worker).
				Jobs("launcher", 1, 1, worker).DependsOn("worker", jobset.DependencyReady),
			want: []string{"worker/0/0", "worker/0/1", "launcher/0/0 late"},
		},
		"a small launcher without a GPU rides": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("launcher", 1, 1, launcher).Jobs("worker", 1, 2, worker),
			want:   []string{"launcher/0/0 rides", "worker/0/0", "worker/0/1"},
		},
		"a launcher that needs memory beyond the first task's has a place of its own": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("launcher", 1, 1, hpcPod("1", "0").Request(corev1.ResourceMemory, "64Gi").Obj()).
				Jobs("worker", 1, 2, hpcPod("4", "0").Request(corev1.ResourceMemory, "8Gi").Obj()),
			want: []string{"launcher/0/0", "worker/0/0", "worker/0/1"},
		},
		"so has one beside workers with the partition's default, which nobody knows": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("launcher", 1, 1, hpcPod("1", "0").Request(corev1.ResourceMemory, "1Gi").Obj()).Jobs("worker", 1, 1, worker),
			want: []string{"launcher/0/0", "worker/0/0"},
		},
		"one with as little memory as fits there rides": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("launcher", 1, 1, hpcPod("1", "0").Request(corev1.ResourceMemory, "8Gi").Obj()).
				Jobs("worker", 1, 1, hpcPod("4", "0").Request(corev1.ResourceMemory, "8Gi").Obj()),
			want: []string{"launcher/0/0 rides", "worker/0/0"},
		},
		"one whose owner says so rides with what it asks for": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("launcher", 1, 1, hpcPod("1", "0").Request(corev1.ResourceMemory, "64Gi").Annotation(wellknown.AnnotationRides, "true").Obj()).
				Jobs("worker", 1, 1, worker),
			want: []string{"launcher/0/0 rides", "worker/0/0"},
		},
		"workers that are all small do not ride": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("launcher", 1, 1, launcher).Jobs("worker", 1, 2, launcher),
			want:   []string{"launcher/0/0", "worker/0/0", "worker/0/1"},
		},
		"a launcher that asks for its own place gets it": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("launcher", 1, 1, hpcPod("1", "0").Annotation(wellknown.AnnotationRides, "false").Obj()).
				Jobs("worker", 1, 1, worker),
			want: []string{"launcher/0/0", "worker/0/0"},
		},
		"where all would ride, none does": {
			jobSet: translatetest.MakeJobSet("pi").
				Jobs("a", 1, 1, hpcPod("1", "0").Annotation(wellknown.AnnotationRides, "true").Obj()),
			want: []string{"a/0/0"},
		},
		"what waits for Complete is another stage": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("data", 1, 1, worker).
				Jobs("train", 1, 2, worker).DependsOn("data", jobset.DependencyComplete),
			stage: 1,
			want:  []string{"train/0/0", "train/0/1"},
		},
		"and is not in the first": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("data", 1, 1, worker).
				Jobs("train", 1, 2, worker).DependsOn("data", jobset.DependencyComplete),
			want: []string{"data/0/0"},
		},
		"replicated jobs for other nodes have no slot": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("driver", 1, 1, elsewhere).Jobs("train", 1, 1, worker),
			want:   []string{"train/0/0"},
		},
		"workers that wait for a driver elsewhere are first": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("driver", 1, 1, elsewhere).
				Jobs("train", 1, 1, worker).DependsOn("driver", jobset.DependencyReady),
			want: []string{"train/0/0"},
		},
		"startup in order makes all but the first late": {
			jobSet: translatetest.MakeJobSet("pi").Jobs("a", 1, 1, worker).Jobs("b", 1, 1, worker).
				Spec(func(s *jobset.JobSetSpec) {
					s.StartupPolicy = &jobset.StartupPolicy{StartupPolicyOrder: jobset.InOrder}
				}),
			want: []string{"a/0/0", "b/0/0 late"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, places(translate.JobSetGang(c.jobSet.Obj(), c.stage, options())))
		})
	}
}

func TestStageFollowsCompleteEdges(t *testing.T) {
	p := hpcPod("1", "0").Obj()
	js := translatetest.MakeJobSet("x").
		Jobs("dataset", 1, 1, p).
		Jobs("model", 1, 1, p).DependsOn("dataset", jobset.DependencyComplete).
		Jobs("node", 1, 1, p).DependsOn("model", jobset.DependencyComplete).
		Jobs("launcher", 1, 1, p).DependsOn("node", jobset.DependencyReady).
		Obj()
	for name, want := range map[string]int{"dataset": 0, "model": 1, "node": 2, "launcher": 2} {
		stage, ok := translate.Stage(js, name)
		assert.True(t, ok)
		assert.Equal(t, want, stage, name)
	}
	_, ok := translate.Stage(js, "absent")
	assert.False(t, ok)
}

func TestHostNamesAreJobSetsOwn(t *testing.T) {
	js := translatetest.MakeJobSet("pi").Jobs("worker", 2, 2, hpcPod("1", "1").Obj())
	g := translate.JobSetGang(js.Obj(), 0, options())
	assert.Equal(t, []string{
		"pi-worker-1-0", "pi-worker-1-0.pi", "pi-worker-1-0.pi.default",
		"pi-worker-1-0.pi.default.svc", "pi-worker-1-0.pi.default.svc.cluster.local",
	}, g.Slots[2].Hosts)

	js.Spec(func(s *jobset.JobSetSpec) { s.Network = &jobset.Network{Subdomain: "net"} })
	assert.Equal(t, "pi-worker-0-0.net", translate.JobSetGang(js.Obj(), 0, options()).Slots[0].Hosts[1])
}

func TestTasksAndGroups(t *testing.T) {
	small, big := hpcPod("2", "1").Obj(), hpcPod("8", "4").Obj()
	js := translatetest.MakeJobSet("pi").
		Jobs("launcher", 1, 1, hpcPod("1", "0").Obj()).
		Jobs("a", 1, 2, small).Jobs("b", 1, 1, big).Jobs("c", 1, 1, big).Obj()
	g := translate.JobSetGang(js, 0, options())
	assert.Equal(t, [][]int{{1, 0}, {2}, {3}, {4}}, g.Tasks(), "the launcher rides on the first task")
	groups := g.TaskGroups()
	require.Len(t, groups, 2, "equal neighbours are one component")
	assert.Equal(t, 2, groups[0].Tasks)
	assert.Equal(t, 1, groups[0].GPUs)
	assert.Equal(t, 2, groups[1].Tasks)
	assert.Equal(t, 4, groups[1].GPUs)
}

func TestMPISlots(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		want int
	}{
		"one process a GPU":                  {hpcPod("8", "4").Obj(), 4},
		"one where there is no GPU":          {hpcPod("8", "0").Obj(), 1},
		"as annotated":                       {hpcPod("8", "4").Annotation(wellknown.AnnotationMPISlots, "8").Obj(), 8},
		"an annotation beyond any host":      {hpcPod("8", "4").Annotation(wellknown.AnnotationMPISlots, "1048577").Obj(), 4},
		"an annotation that is not a number": {hpcPod("8", "4").Annotation(wellknown.AnnotationMPISlots, "many").Obj(), 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, translate.SinglePodGang(c.pod, options()).Slots[0].MPISlots)
		})
	}
}

func TestNamedGang(t *testing.T) {
	member := func(name string) *corev1.Pod {
		b := translatetest.MakePod(name).
			Annotation(wellknown.AnnotationGangName, "ring").Annotation(wellknown.AnnotationGangSize, "3")
		return b.Obj()
	}
	key, ok := translate.NamedGangKey(member("b"))
	require.True(t, ok)
	g := translate.NamedGang(key, []*corev1.Pod{member("b"), member("a")}, 3, options())
	require.Len(t, g.Slots, 3)
	assert.Equal(t, "a", g.Slots[0].Hosts[0], "by name where there is no index")
	assert.Equal(t, []int{2}, g.Missing(func(k int) bool { return k < 2 }))

	n, rejection := translate.GangSize(member("a"))
	assert.Nil(t, rejection)
	assert.Equal(t, 3, n)
	for _, bad := range []string{"", "0", "-1", "three", "100001"} {
		pod := member("a")
		pod.Annotations[wellknown.AnnotationGangSize] = bad
		_, rejection := translate.GangSize(pod)
		require.NotNil(t, rejection, bad)
		assert.Equal(t, wellknown.ReasonBadAnnotation, rejection.Reason)
	}
}

func TestSlotForPrefersItsOwnThenAnyOfTheSameJob(t *testing.T) {
	js := translatetest.MakeJobSet("pi").Jobs("w", 2, 2, hpcPod("1", "1").Obj()).Obj()
	g := translate.JobSetGang(js, 0, options())
	all := func(int) bool { return true }
	slot, ok := g.SlotFor(translate.Role{Group: "w", Job: 1, Index: 1}, all)
	assert.True(t, ok)
	assert.Equal(t, 3, slot)
	slot, ok = g.SlotFor(translate.Role{Group: "w", Job: 1, Index: 7}, all)
	assert.True(t, ok, "a Job with more completions than places reuses them")
	assert.Equal(t, 2, slot)
	_, ok = g.SlotFor(translate.Role{Group: "w", Job: 1, Index: 1}, func(k int) bool { return k == 2 })
	assert.False(t, ok, "its own is taken, and the other is another pod's")
	g.Waves = true
	slot, ok = g.SlotFor(translate.Role{Group: "w", Job: 1, Index: 1}, func(k int) bool { return k == 2 })
	assert.True(t, ok, "in waves places are shared")
	assert.Equal(t, 2, slot)
	_, ok = g.SlotFor(translate.Role{Group: "w", Job: 1, Index: 1}, func(k int) bool { return k < 2 })
	assert.False(t, ok, "never another job's")
}

func TestAllocationNameIsALabelThatTellsGangsApart(t *testing.T) {
	names := translate.Names{Cluster: "c", Node: "n"}
	g := translate.Gang{Key: "jobset/u/0", OwnerName: strings.Repeat("very.long-", 30)}
	name := translate.AllocationName(names, g, 12, "a")
	assert.Empty(t, validation.IsDNS1123Label(name), name)
	other := g
	other.Key = "jobset/u/1"
	assert.NotEqual(t, name, translate.AllocationName(names, other, 12, "a"))
	assert.NotEqual(t, name, translate.AllocationName(translate.Names{Cluster: "c", Node: "m"}, g, 12, "a"))
	assert.NotEqual(t, name, translate.AllocationName(names, g, 13, "a"))
	assert.NotEqual(t, name, translate.AllocationName(names, g, 12, "b"))
	for _, odd := range []string{"团队/ring", "-", "A.B", "../../x"} {
		g.OwnerName = odd
		assert.Empty(t, validation.IsDNS1123Label(translate.AllocationName(names, g, 1, "a")), odd)
	}
}
