package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/yaml"
	jsonstrict "sigs.k8s.io/json"

	"github.com/gangline/gangline/provider/spool"
)

// fuzzedPods is how many random pods go through. One in ten is random all over:
// they show that nothing panics and that refusals are in order. The others are a
// good pod with some fields changed, of which many are accepted.
const fuzzedPods = 10_000

func TestRandomPods(t *testing.T) {
	admitted, inOrder := 0, 0
	reasons := map[string]int{}
	for seed := range int64(fuzzedPods) {
		pod := randomPod(seed)
		if seed%10 != 0 {
			pod = plausiblePod(seed)
		}
		rejection, ordered := checkPod(t, pod)
		if t.Failed() {
			text, _ := json.MarshalIndent(pod, "", " ")
			t.Fatalf("the pod of seed %d: %s", seed, text)
		}
		switch {
		case rejection != nil:
			reasons[rejection.Reason]++
		case ordered:
			inOrder++
			fallthrough
		default:
			admitted++
		}
	}
	t.Logf("%d of %d pods were admitted, %d got their orders at once; refusals: %v", admitted, fuzzedPods, inOrder, reasons)
	// Otherwise this would test very little.
	assert.Greater(t, inOrder, fuzzedPods/10)
	assert.Greater(t, len(reasons), 30, "many kinds of refusals")
}

// FuzzPod is the same for pods as JSON has them: go test
// -run '^$' -fuzz FuzzPod -fuzzminimizetime 1x ./translate
func FuzzPod(f *testing.F) {
	for _, pod := range manifests(f) {
		text, err := json.Marshal(pod)
		require.NoError(f, err)
		f.Add(text)
	}
	for seed := range int64(20) {
		text, err := json.Marshal(plausiblePod(seed))
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		pod := &corev1.Pod{}
		if err := jsonstrict.UnmarshalCaseSensitivePreserveInts(text, pod); err != nil {
			return // no pod
		}
		checkPod(t, pod)
	})
}

func TestPodsOfRealManifests(t *testing.T) {
	pods := manifests(t)
	assert.Greater(t, len(pods), 20)
	for _, pod := range pods {
		rejection, _ := checkPod(t, pod)
		if rejection != nil {
			// Kubeflow's own runtimes rely on images; ours say the command.
			assert.Equal(t, "NoCommand", rejection.Reason, "%s: %s", pod.Name, rejection.Message)
		}
	}
}

// checkPod puts a pod through all that happens to a pod here, and checks what
// must hold for any pod at all.
func checkPod(t testing.TB, pod *corev1.Pod) (rejection *Rejection, ordered bool) {
	t.Helper()
	before := pod.DeepCopy()
	site := Site{
		HostPaths: []string{"/scratch", "/shared"},
		Nodes:     []Resources{{CPUs: 64, MemoryMiB: 1 << 20, GPUs: 8}},
		Images:    Images{{Name: "known", Entrypoint: []string{"/opt/known"}}},
	}
	rejection = Admit(pod, site)
	if rejection == nil {
		_, rejection = ParseWishes(pod.Annotations, nil, Offer{Partitions: []string{"gpu"}, Flags: []string{"hint"}})
	}
	for _, warning := range Warnings(pod, Site{}) {
		assert.NotEmpty(t, warning)
	}
	checkStatuses(t, pod)
	ordered = checkOrders(t, pod, site, rejection == nil)
	checkRequest(t, pod)
	if rejection != nil {
		checkRejection(t, pod, *rejection)
	} else {
		checkFields(t, pod)
	}
	if !equality.Semantic.DeepEqual(before, pod) {
		assert.Equal(t, before, pod, "the pod is the API server's: nobody here may change it")
	}
	return rejection, ordered
}

var oneWord = regexp.MustCompile(`^[A-Z][A-Za-z]+$`)

func checkRejection(t testing.TB, pod *corev1.Pod, r Rejection) {
	t.Helper()
	assert.Regexp(t, oneWord, r.Reason)
	assert.NotEmpty(t, r.Field)
	assert.Contains(t, r.Message, r.Field, "the message names the field")
	assert.Greater(t, len(r.Message), len(r.Field)+10, "and says more than that")
	status := RejectedStatus(pod, time.Unix(1, 0), r)
	assert.Equal(t, corev1.PodFailed, status.Phase)
	assert.Equal(t, r.Reason, status.Reason)
	assert.Contains(t, status.Message, r.Message)
}

// checkFields tells that each field which an admitted pod sets is in the table.
func checkFields(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	table := rules()
	for _, path := range setFields(pod) {
		assert.True(t, inTable(table, path), "%s is set, and no row of the table is about it", path)
	}
}

// inTable tells whether a row is about a field or what holds it.
func inTable(table []rule, path string) bool {
	for _, r := range table {
		if path == r.field || strings.HasPrefix(path, r.field+".") || strings.HasPrefix(path, r.field+"[*]") {
			return true
		}
	}
	return false
}

// setFields are the paths of the leaves that a pod's spec sets. Init containers
// are as containers; ephemeral ones have a row of their own.
func setFields(pod *corev1.Pod) []string {
	var paths []string
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				visit(path, v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				visit(path+"[*]", v.Index(i))
			}
		case reflect.Struct:
			leaf := true
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if name := jsonName(f); name != "" {
					leaf = false
					visit(path+"."+name, v.Field(i))
				} else if f.Anonymous {
					leaf = false
					visit(path, v.Field(i))
				}
			}
			if leaf && !v.IsZero() {
				paths = append(paths, path)
			}
		default:
			if !v.IsZero() {
				paths = append(paths, path)
			}
		}
	}
	visit("spec", reflect.ValueOf(pod.Spec))
	for i, p := range paths {
		paths[i] = strings.Replace(p, "spec.initContainers[*]", "spec.containers[*]", 1)
	}
	return paths
}

// checkOrders makes orders of the pod, with nothing and with all that it names.
// It tells whether an admitted pod got orders.
func checkOrders(t testing.TB, pod *corev1.Pod, site Site, admitted bool) bool {
	t.Helper()
	refs := References(pod)
	all := Inputs{
		ConfigMaps: map[string]*corev1.ConfigMap{}, Secrets: map[string]*corev1.Secret{}, Tokens: map[TokenKey]string{},
		Site: site, PodIP: "10.0.0.1", HostIP: "10.0.0.1", ClusterDomain: "cluster.local", Size: 2,
		Services: []*corev1.Service{service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Port: 443})},
	}
	for _, ref := range refs.ConfigMaps {
		all.ConfigMaps[ref.Name] = configMap(ref.Name, map[string]string{"key": "value"})
	}
	for _, ref := range refs.Secrets {
		all.Secrets[ref.Name] = secret(ref.Name, map[string]string{"key": "value"})
	}
	for _, key := range refs.Tokens {
		all.Tokens[key] = "token"
	}
	ordered := false
	for _, in := range []Inputs{{Site: site}, all} {
		orders, err := Orders(pod, in)
		var missing *MissingError
		if err != nil {
			assert.ErrorAs(t, err, &missing, "whatever a pod lacks, it waits for")
			assert.NotEmpty(t, err.Error())
			continue
		}
		if !admitted {
			continue
		}
		ordered = true
		assert.Len(t, orders.Containers, len(pod.Spec.Containers))
		assert.Len(t, orders.InitContainers, len(pod.Spec.InitContainers))
		for i, c := range orders.Containers {
			assert.NotEmpty(t, c.Argv, "container %d has nothing to run", i)
		}
		text, err := json.Marshal(orders)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &spool.PodOrders{}))
	}
	_, _, _ = EphemeralOrders(pod, all, func(string) bool { return true })
	_ = EphemeralReferences(pod)
	return ordered
}

// checkRequest asks for the pod's allocation. What comes from the pod must not
// reach a command line as more than its own argument.
func checkRequest(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	wishes, _ := ParseWishes(pod.Annotations, nil, Offer{Partitions: []string{"gpu"}, Flags: []string{"hint"}})
	gang := SinglePodGang(pod, Options{ClusterDomain: "cluster.local"})
	name := AllocationName(Names{Cluster: "c", Node: "n"}, gang, 1, "nonce")
	args, err := SbatchArgs(NewRequest(name, gang, wishes, "/agent", "/dir"), "/dir/job.sh")
	if err != nil {
		return
	}
	for _, arg := range args {
		assert.NotContains(t, arg, "\n")
		assert.NotContains(t, arg, "\x00")
		assert.NotEmpty(t, arg)
	}
}

// checkStatuses makes the pod's status at several moments of its life.
func checkStatuses(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	agent := &spool.Agent{Address: "10.0.0.1"}
	running := &spool.PodStatus{UID: string(pod.UID), Started: now}
	for _, c := range pod.Spec.InitContainers {
		running.InitContainers = append(running.InitContainers, corev1.ContainerStatus{Name: c.Name, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
	}
	for _, c := range pod.Spec.Containers {
		running.Containers = append(running.Containers, corev1.ContainerStatus{Name: c.Name, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	done := *running
	done.Done = true
	for name, o := range map[string]Observation{
		"waiting":        {Waiting: Waiting{Reason: "Queued", Message: "it waits"}},
		"starting":       {Agent: agent},
		"running":        {Agent: agent, Observed: running},
		"done":           {Agent: agent, Observed: &done},
		"ended":          {Agent: agent, Observed: running, Ended: &Ending{Reason: "NodeFailure", Message: "m", Disruption: true}},
		"without agents": {Ended: &Ending{Reason: "Cancelled", Message: "m"}},
	} {
		o.Pod, o.Now = pod, now
		status := PodStatus(o)
		assert.Contains(t, []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded, corev1.PodFailed}, status.Phase, name)
		if pod.Status.Phase == "" {
			assert.Len(t, status.ContainerStatuses, len(pod.Spec.Containers), name)
			assert.Len(t, status.InitContainerStatuses, len(pod.Spec.InitContainers), name)
		}
		seen := map[corev1.PodConditionType]bool{}
		for _, c := range status.Conditions {
			if len(pod.Status.Conditions) == 0 {
				assert.False(t, seen[c.Type], "%s: two conditions %s", name, c.Type)
			}
			seen[c.Type] = true
		}
	}
}

// manifests are the pods of all manifests of this repository: those that people
// copy.
func manifests(t testing.TB) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for _, dir := range []string{"../examples", "../charts/gangline/files/runtimes"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
			for n := 0; ; n++ {
				var document any
				if documents.Decode(&document) != nil {
					return nil
				}
				for _, spec := range podSpecs(document) {
					pod := &corev1.Pod{Spec: spec}
					pod.Name, pod.Namespace, pod.UID = fmt.Sprintf("%s-%d", filepath.Base(path), n), "default", "u"
					pods = append(pods, pod)
				}
			}
		})
		require.NoError(t, err)
	}
	return pods
}

// podSpecs finds whatever has containers, at any depth.
func podSpecs(node any) []corev1.PodSpec {
	var specs []corev1.PodSpec
	switch n := node.(type) {
	case map[string]any:
		if _, ok := n["containers"].([]any); ok {
			text, _ := json.Marshal(n)
			var spec corev1.PodSpec
			if json.Unmarshal(text, &spec) == nil {
				specs = append(specs, spec)
			}
		}
		for _, child := range n {
			specs = append(specs, podSpecs(child)...)
		}
	case []any:
		for _, child := range n {
			specs = append(specs, podSpecs(child)...)
		}
	}
	return specs
}
