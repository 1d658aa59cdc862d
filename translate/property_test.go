package translate

import (
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
		gang := SinglePodGang(pod, Options{ClusterDomain: "cluster.local"})
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
	const most = mostUnits
	for range 4000 {
		sum := map[corev1.ResourceName]*big.Rat{}
		pod := &corev1.Pod{}
		for i := range 1 + random.Intn(3) {
			c := corev1.Container{Name: fmt.Sprint(i), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    amount("", "m", "n", "k"),
				corev1.ResourceMemory: amount("", "m", "Ki", "Mi", "M", "Gi", "Ti"),
				DefaultGPUResource:    *resource.NewQuantity(random.Int63n(1<<uint(1+random.Intn(62))), resource.DecimalSI),
			}}}
			for name, q := range c.Resources.Requests {
				if sum[name] == nil {
					sum[name] = new(big.Rat)
				}
				sum[name].Add(sum[name], exact(t, q))
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		r := PodResources(pod.Spec, "", nil)
		atLeast := func(what string, got int64, unit int64, limit int64, want *big.Rat) {
			have := new(big.Rat).Mul(new(big.Rat).SetInt64(got), new(big.Rat).SetInt64(unit))
			assert.True(t, have.Cmp(want) >= 0 || got == limit, "%s: %s of %s in %v", what, have.FloatString(3), want.FloatString(3), pod.Spec.Containers)
			assert.True(t, got > 0 || want.Sign() == 0, what)
		}
		atLeast("CPUs", int64(r.CPUs), 1, most, sum[corev1.ResourceCPU])
		atLeast("memory", r.MemoryMiB, mebibyte, math.MaxInt64/mebibyte+1, sum[corev1.ResourceMemory])
		if sum[DefaultGPUResource].Sign() > 0 {
			atLeast("GPUs", int64(r.GPUs), 1, most, sum[DefaultGPUResource])
		}
		checkSbatchUnits(t, r)
	}
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
	for _, arg := range (Request{Wishes: Wishes{TimeLimit: 90_000_000_001}}).sbatchArgs(true) {
		assert.NotEqual(t, "--time=1", arg, "a minute and a half and a bit are two")
	}
}

// TestRanksAreABijection: however many replicated jobs there are, of whatever size, each
// pod has one slot and each slot one pod; and each slot one task, or a ride on the first.
func TestRanksAreABijection(t *testing.T) {
	random := rand.New(rand.NewSource(12))
	for range 500 {
		b := translatetest.MakeJobSet("pi")
		var roles []Role
		for i := range 1 + random.Intn(4) {
			group, replicas, pods := fmt.Sprintf("g%d", i), int32(1+random.Intn(3)), int32(1+random.Intn(4))
			pod := translatetest.MakePod("p").Request("cpu", fmt.Sprint(1+random.Intn(3))).Obj()
			b.Jobs(group, replicas, pods, pod)
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
		tasks := 0
		for _, task := range gang.Tasks() {
			tasks++
			for _, slot := range task {
				inTasks[slot]++
			}
		}
		grouped := 0
		for _, g := range gang.TaskGroups() {
			grouped += g.Tasks
		}
		assert.Equal(t, tasks, grouped)
		for slot := range gang.Slots {
			assert.Equal(t, 1, inTasks[slot], "slot %d", slot)
		}
		hosts := map[string]bool{}
		for _, s := range gang.Slots {
			assert.False(t, hosts[s.Hosts[0]], "two pods of one name: %s", s.Hosts[0])
			hosts[s.Hosts[0]] = true
		}
	}
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
