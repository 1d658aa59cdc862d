package translate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// object reads an owner as the API server has it.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &u.Object))
	return u
}

// A template for the virtual node, with so many CPUs, and one for another node.
const (
	hpcTemplate  = `{spec: {nodeSelector: {hpc: "yes"}, containers: [{name: main, resources: {requests: {cpu: "4"}, limits: {nvidia.com/gpu: "2"}}}]}}`
	tinyTemplate = `{spec: {nodeSelector: {hpc: "yes"}, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}}`
	farTemplate  = `{spec: {containers: [{name: main}]}}`
)

func mpiJob(t *testing.T, spec, launcher, workers string) *unstructured.Unstructured {
	return object(t, `
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi, namespace: default, uid: u1, creationTimestamp: "2026-01-02T03:04:05Z"}
spec:
  mpiReplicaSpecs:
    Launcher: {template: `+launcher+`}
    Worker: `+workers+`
`+spec)
}

func TestMPIJobGang(t *testing.T) {
	workers := "{replicas: 2, template: " + hpcTemplate + "}"
	cases := map[string]struct {
		spec, launcher, workers string
		want                    []string
		mpiSlots                []int
	}{
		"workers in order, and a small launcher that rides": {
			launcher: tinyTemplate, workers: workers,
			want: []string{"worker/0/0", "worker/0/1", "launcher/0/0 rides"}, mpiSlots: []int{1, 1, 0},
		},
		"a launcher that waits for the workers is late": {
			spec: "  launcherCreationPolicy: WaitForWorkersReady", launcher: hpcTemplate, workers: workers,
			want: []string{"worker/0/0", "worker/0/1", "launcher/0/0 late"}, mpiSlots: []int{1, 1, 0},
		},
		"a launcher that is a worker is the first, and its index is 0": {
			spec: "  runLauncherAsWorker: true\n  slotsPerWorker: 3", launcher: tinyTemplate, workers: workers,
			want: []string{"launcher/0/0", "worker/0/1", "worker/0/2"}, mpiSlots: []int{3, 3, 3},
		},
		"no workers": {
			launcher: hpcTemplate, workers: "{template: " + hpcTemplate + "}",
			want: []string{"launcher/0/0"}, mpiSlots: []int{0},
		},
		"a launcher on another node has no place": {
			launcher: farTemplate, workers: workers,
			want: []string{"worker/0/0", "worker/0/1"}, mpiSlots: []int{1, 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := translate.MPIJobGang(mpiJob(t, c.spec, c.launcher, c.workers), options())
			require.NoError(t, err)
			assert.Equal(t, c.want, places(d.Gang))
			assert.Equal(t, "mpijob/u1", d.Key)
			var slots []int
			for _, s := range d.Slots {
				slots = append(slots, s.MPISlots)
			}
			assert.Equal(t, c.mpiSlots, slots)
		})
	}
}

func TestMPIJobHostsAreTheOperatorsOwn(t *testing.T) {
	d, err := translate.MPIJobGang(mpiJob(t, "", hpcTemplate, "{replicas: 1, template: "+hpcTemplate+"}"), options())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"pi-worker-0", "pi-worker-0.pi", "pi-worker-0.pi.default", "pi-worker-0.pi.default.svc", "pi-worker-0.pi.default.svc.cluster.local",
	}, d.Slots[0].Hosts)
	assert.Equal(t, "pi-launcher", d.Slots[1].Hosts[0])
	assert.Equal(t, 2, d.Slots[0].GPUs)
}

func TestMPIJobThatBringsNoMorePods(t *testing.T) {
	cases := map[string]struct {
		spec string
		want translate.Declaration
	}{
		"suspended": {"  runPolicy: {suspend: true}", translate.Declaration{Suspended: true}},
		"succeeded": {"status: {conditions: [{type: Running, status: 'False'}, {type: Succeeded, status: 'True'}]}", translate.Declaration{Finished: true}},
		"running":   {"status: {conditions: [{type: Running, status: 'True'}, {type: Failed, status: 'False'}]}", translate.Declaration{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := translate.MPIJobGang(mpiJob(t, c.spec, hpcTemplate, "{}"), options())
			require.NoError(t, err)
			assert.Equal(t, c.want, translate.Declaration{Gone: d.Gone, Suspended: d.Suspended, Finished: d.Finished})
		})
	}
}

func TestMPIJobRole(t *testing.T) {
	cases := map[string]struct {
		role, index string
		want        translate.Role
		ok          bool
	}{
		"a worker":                   {"worker", "3", translate.Role{Group: "worker", Index: 3}, true},
		"a launcher":                 {"launcher", "", translate.Role{Group: "launcher"}, true},
		"a worker without its index": {"worker", "", translate.Role{}, false},
		"none of both":               {"", "1", translate.Role{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod := translatetest.MakePod("p").Label(wellknown.LabelTrainingJobRole, c.role).Label(wellknown.LabelTrainingReplicaIndex, c.index).Obj()
			role, ok := translate.MPIJobRole(pod)
			assert.Equal(t, c.ok, ok)
			if ok {
				assert.Equal(t, c.want, role)
			}
		})
	}
}

func lwsPod(name, group, worker string) *corev1.Pod {
	return translatetest.MakePod(name).
		Label(wellknown.LabelLWSName, "llm").Label(wellknown.LabelLWSGroupIndex, group).Label(wellknown.LabelLWSWorkerIndex, worker).
		Label(wellknown.LabelLWSRevision, "r1").Annotation(wellknown.AnnotationLWSSize, "3").Obj()
}

func TestLWSGang(t *testing.T) {
	group, role, ok := translate.LWSGroupOf(lwsPod("llm-1-2", "1", "2"))
	require.True(t, ok)
	assert.Equal(t, translate.LWSGroup{Set: "llm", Index: 1, Revision: "r1"}, group)
	assert.Equal(t, translate.Role{Group: "worker", Index: 2}, role)
	_, role, _ = translate.LWSGroupOf(lwsPod("llm-1", "1", "0"))
	assert.Equal(t, translate.Role{Group: "leader"}, role)
	_, _, ok = translate.LWSGroupOf(translatetest.MakePod("p").Obj())
	assert.False(t, ok)

	cases := map[string]struct {
		spec string
		pods []*corev1.Pod
		want []string
		gone bool
	}{
		"the size is the set's": {
			spec: "{replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: " + hpcTemplate + "}}",
			want: []string{"leader/0/0", "worker/0/1"},
		},
		"or the pods', which may be of an older revision": {
			spec: "{replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: " + hpcTemplate + "}}",
			pods: []*corev1.Pod{lwsPod("llm-1", "1", "0")},
			want: []string{"leader/0/0", "worker/0/1", "worker/0/2"},
		},
		"workers that wait for a ready leader are late": {
			spec: "{replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 2, workerTemplate: " + hpcTemplate + "}}",
			want: []string{"leader/0/0", "worker/0/1 late"},
		},
		"a small leader rides": {
			spec: "{replicas: 2, leaderWorkerTemplate: {size: 2, leaderTemplate: " + tinyTemplate + ", workerTemplate: " + hpcTemplate + "}}",
			want: []string{"leader/0/0 rides", "worker/0/1"},
		},
		"a leader elsewhere is Ready when its workers come": {
			spec: "{replicas: 2, startupPolicy: LeaderReady, leaderWorkerTemplate: {size: 2, leaderTemplate: " + farTemplate + ", workerTemplate: " + hpcTemplate + "}}",
			want: []string{"worker/0/1"},
		},
		"a set that was scaled down has the group no more": {
			spec: "{replicas: 1, leaderWorkerTemplate: {workerTemplate: " + hpcTemplate + "}}",
			want: []string{"leader/0/0"}, gone: true,
		},
		"but one that is updated may have more for a while": {
			spec: "{replicas: 1, leaderWorkerTemplate: {workerTemplate: " + hpcTemplate + "}}",
			pods: []*corev1.Pod{lwsPod("llm-1", "1", "0")},
			want: []string{"leader/0/0", "worker/0/1", "worker/0/2"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set := object(t, "kind: LeaderWorkerSet\nmetadata: {name: llm, namespace: default, uid: u2}\nspec: "+c.spec)
			d, err := translate.LWSGang(set, group, c.pods, options())
			require.NoError(t, err)
			assert.Equal(t, c.want, places(d.Gang))
			assert.Equal(t, "lws/u2/1/r1", d.Key)
			assert.Equal(t, c.gone, d.Gone)
		})
	}
}

func TestLWSHosts(t *testing.T) {
	group := translate.LWSGroup{Set: "llm", Index: 1}
	for policy, want := range map[string][]string{
		"Shared": {"llm-1.llm", "llm-1-1.llm"}, "UniquePerReplica": {"llm-1.llm-1", "llm-1-1.llm-1"},
	} {
		set := object(t, `
metadata: {name: llm, namespace: default, uid: u2}
spec: {replicas: 2, networkConfig: {subdomainPolicy: `+policy+`}, leaderWorkerTemplate: {size: 2, workerTemplate: `+hpcTemplate+`}}`)
		d, err := translate.LWSGang(set, group, nil, options())
		require.NoError(t, err)
		assert.Equal(t, want, []string{d.Slots[0].Hosts[1], d.Slots[1].Hosts[1]}, policy)
	}
}

func TestPodGroupsOfPods(t *testing.T) {
	cases := map[string]struct {
		pod  *corev1.Pod
		kind string
	}{
		"Kubernetes' own": {
			translatetest.MakePod("p").Spec(func(s *corev1.PodSpec) {
				s.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("ring")}
			}).Obj(), "kubernetes",
		},
		"scheduler-plugins'": {translatetest.MakePod("p").Label(wellknown.LabelPodGroup, "ring").Obj(), "scheduler-plugins"},
		"Volcano's":          {translatetest.MakePod("p").Annotation(wellknown.AnnotationVolcanoGroup, "ring").Obj(), "volcano"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, kind := range translate.PodGroupKinds() {
				want := ""
				if kind.Name == c.kind {
					want = "ring"
				}
				assert.Equal(t, want, kind.Of(c.pod), kind.Name)
			}
		})
	}
}

func TestPodGroupSizes(t *testing.T) {
	cases := map[string]struct {
		spec string
		size int
		gang bool
	}{
		"kubernetes":        {"{schedulingPolicy: {gang: {minCount: 3}}}", 3, true},
		"scheduler-plugins": {"{minMember: 4}", 4, true},
		"volcano":           {"{minMember: 5, queue: q}", 5, true},
	}
	for _, kind := range translate.PodGroupKinds() {
		size, gang := kind.Size(sized(t, cases[kind.Name].spec))
		assert.Equal(t, cases[kind.Name].size, size, kind.Name)
		assert.True(t, gang, kind.Name)
		_, gang = kind.Size(sized(t, "{schedulingPolicy: {basic: {}}}"))
		assert.False(t, gang, "%s asks for no gang", kind.Name)
	}
}

// sized is a PodGroup as a client reads it, with numbers as integers.
func sized(t *testing.T, spec string) *unstructured.Unstructured {
	data, err := yaml.YAMLToJSON([]byte("kind: PodGroup\napiVersion: x/v1\nmetadata: {name: ring, namespace: default, uid: u3}\nspec: " + spec))
	require.NoError(t, err)
	u := &unstructured.Unstructured{}
	require.NoError(t, u.UnmarshalJSON(data))
	return u
}

func TestPodGroupGang(t *testing.T) {
	kind := translate.PodGroupKinds()[1]
	pods := func(names ...string) []*corev1.Pod {
		var list []*corev1.Pod
		for _, n := range names {
			list = append(list, hpcPod("2", "1").With(func(*corev1.Container) {}).Obj())
			list[len(list)-1].Name = n
		}
		return list
	}
	cases := map[string]struct {
		pods    []*corev1.Pod
		want    []string
		missing int
	}{
		"pods in the order in which people count": {pods("w-10", "w-2", "w-1"), []string{"w-1", "w-2", "w-10"}, 0},
		"places for those that are missing":       {pods("w-1"), []string{"w-1", "", ""}, 2},
		"all that there are":                      {pods("w-0", "w-1", "w-2", "w-3"), []string{"w-0", "w-1", "w-2", "w-3"}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := kind.PodGroupGang(sized(t, "{minMember: 3}"), c.pods, options())
			require.NoError(t, err)
			var names []string
			for _, s := range d.Slots {
				names = append(names, append(s.Hosts, "")[0])
			}
			assert.Equal(t, c.want, names)
			assert.Len(t, d.Missing(func(k int) bool { return k < len(c.pods) }), c.missing)
			assert.Equal(t, "podgroup/scheduler-plugins/u3", d.Key)
			assert.False(t, d.Refills, "nobody replaces bare pods")
		})
	}
}
