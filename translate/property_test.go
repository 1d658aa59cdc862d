package translate

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/translatetest"
)

// The properties of this file hold for whatever users write. Each takes a few thousand
// random cases, always the same ones.

// hostile are texts that have meant something to a shell, to sbatch or to a file before.
var hostile = []string{
	"$(reboot)", "`reboot`", "; reboot", "--uid=0", "-Z", "a\n#SBATCH --uid=0", "a b", "'", `"`, "\x00", "\x1b[2J", "|", "&", "../../etc/passwd", "%j", "%%", "{{id}}",
	"\u2028", "=", ":", ",", "*", "~", "#", `\`, "é", strings.Repeat("x", 5000),
}

// hostileSigns are of those that a shell reads; no name of Slurm's has them.
const hostileSigns = "$`;&|<>(){}[]*?~#'\"\\ %!="

func anyOf(random *rand.Rand, texts []string) string { return texts[random.Intn(len(texts))] }

// hostilePod is a pod that has a hostile text wherever a text may be that could reach a
// command line: names, labels, annotations, commands, environment, volumes.
func hostilePod(random *rand.Rand) *corev1.Pod {
	text := func() string { return anyOf(random, hostile) }
	pod := translatetest.MakePod("p").Command(text(), text()).Env(text(), text()).Obj()
	pod.Name, pod.Namespace, pod.UID = text(), text(), "u"
	pod.Labels = map[string]string{text(): text()}
	pod.Spec.Containers[0].Args = []string{text()}
	pod.Spec.Containers[0].WorkingDir = text()
	pod.Annotations = map[string]string{}
	for _, w := range wishes() {
		switch random.Intn(6) {
		case 0:
			pod.Annotations[w.name] = text()
		case 1:
			pod.Annotations[w.name] = text() + "," + text()
		case 2: // what is good, with something behind it
			pod.Annotations[w.name] = anyOf(random, []string{"gpu", "1", "5m", "afterok:Pod/a", "--hint=x", "true"}) + text()
		case 3:
			pod.Annotations[w.name] = anyOf(random, []string{"gpu", "1", "5m", "afterok:Pod/a", "--hint=x", "true", "h100&ib"})
		}
	}
	return pod
}

// hostileGang is a gang of any kind that is made of such a pod, whose owner is called as
// badly.
func hostileGang(t *testing.T, random *rand.Rand, pod *corev1.Pod) Gang {
	t.Helper()
	o := Options{ClusterDomain: "cluster.local", Selects: func(corev1.PodSpec) bool { return true }}
	name := anyOf(random, hostile)
	owner := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "namespace": anyOf(random, hostile), "uid": anyOf(random, hostile)}, "spec": spec,
		}}
	}
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.PodTemplateSpec{Spec: pod.Spec})
	require.NoError(t, err)
	var d Declaration
	switch random.Intn(6) {
	case 0:
		js := translatetest.MakeJobSet(name).Jobs(anyOf(random, hostile), 2, 2, pod).Obj()
		return JobSetGang(js, 0, o)
	case 1:
		d, err = MPIJobGang(owner(map[string]any{"mpiReplicaSpecs": map[string]any{"Worker": map[string]any{"replicas": int64(2), "template": template}}}), o)
	case 2:
		d, err = LWSGang(owner(map[string]any{"leaderWorkerTemplate": map[string]any{"size": int64(2), "workerTemplate": template}}), LWSGroup{Set: name}, nil, o)
	case 3:
		kind := PodGroupKinds()[random.Intn(len(PodGroupKinds()))]
		d, err = kind.PodGroupGang(owner(map[string]any{"minMember": int64(1)}), []*corev1.Pod{pod}, o)
	case 4:
		key, _ := NamedGangKey(pod)
		return NamedGang(key, []*corev1.Pod{pod}, 1, o)
	default:
		return SinglePodGang(pod, o)
	}
	require.NoError(t, err)
	return d.Gang
}

// TestNoUserByteReachesAShell: an allocation's command line begins with options that are
// known here, of which each is one argument with its value, and ends with the batch script
// and its arguments, which are the site's. Nothing that is the user's is an argument of its
// own, and so none can be an option, a program or a part of a script.
func TestNoUserByteReachesAShell(t *testing.T) {
	random := rand.New(rand.NewSource(9))
	known := OwnSbatchOptions()
	passed, reached := 0, 0
	for range 4000 {
		pod := hostilePod(random)
		// Of many hostile wishes most pods would be refused for the first.
		for name := range pod.Annotations {
			if random.Intn(15) > 0 {
				delete(pod.Annotations, name)
			}
		}
		w, rejection := ParseWishes(pod.Annotations, nil, Offer{Flags: []string{"hint"}})
		if rejection != nil {
			continue
		}
		gang := hostileGang(t, random, pod)
		name := AllocationName(Names{Cluster: "c", Node: "n"}, gang, 1, "nonce")
		assert.Regexp(t, `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`, name, "an allocation's name is a DNS label, whatever its owner is called")
		r := NewRequest(name, gang, w, "/opt/agent", "/spool/gangs/"+name)
		args, err := SbatchArgs(r, r.Dir+"/launch.sh")
		if err != nil {
			continue // it is told to the user, and nothing is submitted
		}
		passed++
		require.Equal(t, []string{r.Dir + "/launch.sh", "/opt/agent", r.Dir}, args[len(args)-3:])
		for _, arg := range args[:len(args)-3] {
			option, value, _ := strings.Cut(arg, "=")
			bare, long := strings.CutPrefix(option, "--")
			_, ours := known[bare]
			assert.True(t, long && (ours || bare == "hint"), "%q is an option that nobody here has written", arg)
			assert.False(t, strings.ContainsFunc(arg, unicode.IsControl), "%q", arg)
			if bare != "job-name" && bare != "chdir" && bare != "output" && strings.ContainsAny(value, hostileSigns) {
				reached++
				assert.Contains(t, []string{"comment", "constraint", "licenses", "dependency", "switches", "nodes", "mem-per-cpu", "hint"}, bare, "%q: only texts may hold such signs", arg)
			}
		}
	}
	// Otherwise this would test very little.
	assert.Greater(t, passed, 500)
	assert.Positive(t, reached)
}

// TestOrdersKeepCommandsAsTheyAre: the words of a command reach the agent one by one, and
// are what the pod says.
func TestOrdersKeepCommandsAsTheyAre(t *testing.T) {
	random := rand.New(rand.NewSource(10))
	made := 0
	for range 2000 {
		var words []string
		for range 1 + random.Intn(4) {
			words = append(words, anyOf(random, hostile))
		}
		pod := translatetest.MakePod("p").Command(words...).Args(anyOf(random, hostile)).Env("A", anyOf(random, hostile)).Obj()
		orders, err := Orders(pod, Inputs{Services: []*corev1.Service{service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Port: 443})}})
		if err != nil {
			continue
		}
		made++
		want := append(slices.Clone(words), pod.Spec.Containers[0].Args...)
		for i, word := range want {
			want[i] = Expand(word, func(string) (string, bool) { return "", false }) // "$(reboot)" is no variable, "$$" an escape
		}
		assert.Equal(t, want, orders.Containers[0].Argv)
	}
	assert.Greater(t, made, 1000)
}

// TestQuantitiesAreNeverRoundedDown: an allocation has at least what the pod's containers
// request in all, in whatever units, and however much it is.
func TestQuantitiesAreNeverRoundedDown(t *testing.T) {
	random := rand.New(rand.NewSource(11))
	amount := func(suffixes ...string) resource.Quantity {
		digits := random.Int63n(1 << uint(1+random.Intn(62)))
		text := fmt.Sprint(digits)
		if random.Intn(3) == 0 {
			text = fmt.Sprintf("%d.%03d", digits>>20, random.Intn(1000))
		}
		return resource.MustParse(text + anyOf(random, suffixes))
	}
	list := func(chance float64) corev1.ResourceList {
		all := corev1.ResourceList{
			corev1.ResourceCPU:    amount("", "m", "n", "k"),
			corev1.ResourceMemory: amount("", "m", "Ki", "Mi", "M", "Gi", "Ti"),
			DefaultGPUResource:    *resource.NewQuantity(random.Int63n(1<<uint(1+random.Intn(62))), resource.DecimalSI),
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, DefaultGPUResource} {
			if random.Float64() > chance {
				delete(all, name)
			}
		}
		return all
	}
	containers := func(n int) (made []corev1.Container) {
		for i := range n {
			c := corev1.Container{Name: fmt.Sprint(i), Resources: corev1.ResourceRequirements{Requests: list(0.7), Limits: list(0.3)}}
			if random.Intn(2) == 0 {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways) // of an init container it makes a sidecar
			}
			made = append(made, c)
		}
		return made
	}
	const most = mostUnits
	for range 4000 {
		pod := &corev1.Pod{}
		pod.Spec.InitContainers, pod.Spec.Containers = containers(random.Intn(4)), containers(1+random.Intn(3))
		if random.Intn(4) == 0 {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(0.3), Limits: list(0.3)}
			delete(pod.Spec.Resources.Requests, DefaultGPUResource) // not a pod's to ask for as a whole
			delete(pod.Spec.Resources.Limits, DefaultGPUResource)
		}
		sum := map[corev1.ResourceName]*big.Rat{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, DefaultGPUResource} {
			sum[name] = needed(t, pod.Spec, name)
		}
		before := pod.DeepCopy()
		r := PodResources(pod.Spec, "", nil)
		require.Equal(t, before, pod)
		atLeast := func(what string, got int64, unit int64, limit int64, want *big.Rat) {
			have := new(big.Rat).Mul(new(big.Rat).SetInt64(got), new(big.Rat).SetInt64(unit))
			assert.True(t, have.Cmp(want) >= 0 || got == limit, "%s: %s of %s in %v", what, have.FloatString(3), want.FloatString(3), pod.Spec)
			assert.True(t, got > 0 || want.Sign() == 0, what)
		}
		atLeast("CPUs", int64(r.CPUs), 1, most, sum[corev1.ResourceCPU])
		atLeast("memory", r.MemoryMiB, mebibyte, math.MaxInt64/mebibyte+1, sum[corev1.ResourceMemory])
		if sum[DefaultGPUResource].Sign() > 0 {
			atLeast("GPUs", int64(r.GPUs), 1, most, sum[DefaultGPUResource])
		}
		checkSbatchUnits(t, r)
		checkSbatchTime(t, time.Duration(1+random.Int63n(1<<uint(1+random.Intn(60)))))
	}
}

// needed is what a pod needs at once, as its containers, sidecars and init containers say
// by their requests, or by limits without a request; what the pod asks for as a whole
// stands for all of that.
func needed(t *testing.T, spec corev1.PodSpec, name corev1.ResourceName) *big.Rat {
	t.Helper()
	said := false
	of := func(r corev1.ResourceRequirements) *big.Rat {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			if q, ok := list[name]; ok {
				said = true
				return exact(t, q)
			}
		}
		return new(big.Rat)
	}
	most, sidecars := new(big.Rat), new(big.Rat)
	atOnce := func(n *big.Rat) {
		if n.Cmp(most) > 0 {
			most = n
		}
	}
	for _, c := range spec.InitContainers {
		if sidecar(c) {
			sidecars = new(big.Rat).Add(sidecars, of(c.Resources))
			atOnce(sidecars)
			continue
		}
		atOnce(new(big.Rat).Add(sidecars, of(c.Resources)))
	}
	all := sidecars
	for _, c := range spec.Containers {
		all = new(big.Rat).Add(all, of(c.Resources))
	}
	atOnce(all)
	if spec.Resources == nil {
		return most
	}
	if q, ok := spec.Resources.Requests[name]; ok {
		return exact(t, q)
	}
	if q, ok := spec.Resources.Limits[name]; ok && !said {
		return exact(t, q)
	}
	return most
}

// checkSbatchTime: a job gets no less time than was asked for.
func checkSbatchTime(t *testing.T, limit time.Duration) {
	t.Helper()
	args := (Request{Wishes: Wishes{TimeLimit: limit}}).sbatchArgs(true)
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--time=") })
	require.GreaterOrEqual(t, i, 0, "%s", limit)
	minutes, err := strconv.ParseInt(strings.TrimPrefix(args[i], "--time="), 10, 64)
	require.NoError(t, err)
	got, wish := new(big.Int).Mul(big.NewInt(minutes), big.NewInt(int64(time.Minute))), big.NewInt(int64(limit))
	assert.True(t, got.Cmp(wish) >= 0, "%s for %s", args[i], limit)
}

// exact is a quantity as a fraction.
func exact(t *testing.T, q resource.Quantity) *big.Rat {
	t.Helper()
	value, ok := new(big.Rat).SetString(q.AsDec().String())
	require.True(t, ok)
	return value
}

// checkSbatchUnits: Slurm counts memory per CPU; all of it together is no less than was asked.
func checkSbatchUnits(t *testing.T, r Resources) {
	t.Helper()
	for _, arg := range (TaskGroup{Tasks: 1, Resources: r}).sbatchArgs(false) {
		if text, ok := strings.CutPrefix(arg, "--mem-per-cpu="); ok {
			var perCPU int64
			_, err := fmt.Sscanf(text, "%dM", &perCPU)
			require.NoError(t, err, arg)
			total := new(big.Int).Mul(big.NewInt(perCPU), big.NewInt(int64(r.CPUs)))
			assert.True(t, total.Cmp(big.NewInt(r.MemoryMiB)) >= 0, "%s for %d CPUs and %d MiB", arg, r.CPUs, r.MemoryMiB)
		}
	}
}

// TestRanksAreABijection: however many replicated jobs there are, of whatever size, each
// pod has one slot and each slot one pod; and each slot one task, or a ride on the first.
func TestRanksAreABijection(t *testing.T) {
	random := rand.New(rand.NewSource(12))
	riding := 0
	for range 500 {
		b := translatetest.MakeJobSet("pi")
		var roles []Role
		for i := range 1 + random.Intn(4) {
			group, replicas, pods := fmt.Sprintf("g%d", i), int32(1+random.Intn(3)), int32(1+random.Intn(4))
			pod := translatetest.MakePod("p").Request("cpu", fmt.Sprint(1+random.Intn(3)))
			if random.Intn(3) > 0 {
				pod = pod.Request("memory", fmt.Sprintf("%dGi", random.Intn(8)))
			}
			if random.Intn(4) == 0 {
				pod = pod.Limit(DefaultGPUResource, fmt.Sprint(random.Intn(3)))
			}
			b.Jobs(group, replicas, pods, pod.Obj())
			for job := range int(replicas) {
				for index := range int(pods) {
					roles = append(roles, Role{Group: group, Job: job, Index: index})
				}
			}
		}
		gang := JobSetGang(b.Obj(), 0, Options{Selects: func(corev1.PodSpec) bool { return true }})
		require.Len(t, gang.Slots, len(roles))
		taken := map[int]Role{}
		random.Shuffle(len(roles), func(i, j int) { roles[i], roles[j] = roles[j], roles[i] }) // pods come in any order
		for _, role := range roles {
			slot, ok := gang.SlotFor(role, func(slot int) bool { _, is := taken[slot]; return !is })
			require.True(t, ok, role)
			assert.NotContains(t, taken, slot)
			assert.Equal(t, role, gang.Slots[slot].Role, "its own, while it is free")
			taken[slot] = role
		}
		assert.Len(t, taken, len(gang.Slots))
		inTasks := map[int]int{}
		var grouped []Resources // of each task, in rank order
		for _, g := range gang.TaskGroups() {
			grouped = append(grouped, slices.Repeat([]Resources{g.Resources}, g.Tasks)...)
		}
		require.Len(t, gang.Tasks(), len(grouped))
		for i, task := range gang.Tasks() {
			for _, slot := range task {
				inTasks[slot]++
				s := gang.Slots[slot]
				if !s.Rides {
					assert.Equal(t, s.Resources, grouped[i], "task %d is slot %d's", i, slot)
					continue
				}
				riding++
				assert.Zero(t, s.GPUs)
				assert.LessOrEqual(t, s.CPUs, rideableCPUs)
				assert.LessOrEqual(t, s.MemoryMiB, grouped[i].MemoryMiB, "the task has the memory that slot %d asks for", slot)
			}
		}
		for slot := range gang.Slots {
			assert.Equal(t, 1, inTasks[slot], "slot %d", slot)
		}
		hosts := map[string]bool{}
		for _, s := range gang.Slots {
			assert.False(t, hosts[s.Hosts[0]], "two pods of one name: %s", s.Hosts[0])
			hosts[s.Hosts[0]] = true
		}
	}
	assert.Positive(t, riding) // otherwise this would test very little
}

// FuzzAllocationName: a name of a job and of a directory, made of whatever the owner is
// called.
func FuzzAllocationName(f *testing.F) {
	for _, name := range append(slices.Clone(hostile), "pi", "", "A.B_c", strings.Repeat("-", 40)) {
		f.Add(name, 1)
	}
	f.Fuzz(func(t *testing.T, owner string, generation int) {
		if generation < 1 {
			return
		}
		names := Names{Cluster: "c", Node: "n"}
		name := AllocationName(names, Gang{Key: "k", OwnerName: owner}, generation, "nonce")
		assert.Regexp(t, `^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?$`, name)
		assert.True(t, names.Own(name))
		assert.False(t, Names{Cluster: "c", Node: "other"}.Own(name))
		assert.Equal(t, name, path.Base(path.Clean("/"+name)))
	})
}
