package gangs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate/wellknown"
)

// Gang is the pods that run together, and what they say of their job. It is also what
// the plugin prints as JSON and YAML.
type Gang struct {
	Namespace string `json:"namespace"`
	// Kind and Name are the owner's: "TrainJob", "pi".
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Key is the node's own name of the gang; empty before the node has seen it.
	Key string `json:"key,omitempty"`
	// Size is the number of places; that of the pods until there is a job.
	Size int `json:"size"`
	// Ready is the number of pods that run or have completed. Of a gang that has completed it
	// is all of them, though pods may have been removed since, as JobSet does.
	Ready int   `json:"ready"`
	State State `json:"state"`
	// Reason and Message are those of the pod that decides the state.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// JobID and Allocation are the job's number and name.
	JobID      string `json:"jobID,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	// VirtualNode is the Kubernetes node, HPCNodes are those that the pods run on, in
	// the pods' order.
	VirtualNode string   `json:"virtualNode,omitempty"`
	HPCNodes    []string `json:"hpcNodes,omitempty"`
	// Created is that of the first pod, or when the job was submitted if that pod has been
	// removed since. Submitted and ExpectedStart are the job's, nil
	// where they are not known.
	Created       metav1.Time  `json:"created"`
	Submitted     *metav1.Time `json:"submitted,omitempty"`
	ExpectedStart *metav1.Time `json:"expectedStart,omitempty"`
	// Pods in the order of their ranks.
	Pods []Pod `json:"pods"`
}

// Pod is one pod of a gang.
type Pod struct {
	Name string `json:"name"`
	// Rank is the pod's place, nil until there is a job.
	Rank    *int   `json:"rank,omitempty"`
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	HPCNode string `json:"hpcNode,omitempty"`

	Object *corev1.Pod `json:"-"`
}

// Ref is how the gang can be asked for: "trainjob/pi".
func (g Gang) Ref() string { return strings.ToLower(g.Kind) + "/" + g.Name }

// owner is whose a pod is, for people and to put pods together by.
type owner struct{ namespace, kind, name string }

// Ours tells whether a pod is one for the HPC side: the node has accepted it, or it
// tolerates the node's taint and runs nowhere else.
func Ours(pod *corev1.Pod) bool {
	if pod.Annotations[wellknown.AnnotationGang] != "" {
		return true
	}
	if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded {
		return false // on another node that has the same taint
	}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == wellknown.TaintKey && (t.Operator == corev1.TolerationOpExists || t.Value == wellknown.TaintValue)
	})
}

// Group puts pods together into gangs, sorted by namespace and name. Pods that are not
// for the HPC side are left out. A pod that the node has not seen yet joins the gang of its
// owner, if that is one only.
func Group(pods []*corev1.Pod) []Gang {
	type group struct {
		owner owner
		key   string
		pods  []*corev1.Pod
	}
	var groups []*group
	byKey, byOwner := map[string]*group{}, map[owner][]*group{}
	add := func(o owner, key string, pod *corev1.Pod) {
		g := &group{owner: o, key: key, pods: []*corev1.Pod{pod}}
		groups = append(groups, g)
		if byOwner[o] = append(byOwner[o], g); key != "" {
			byKey[pod.Namespace+"/"+key] = g
		}
	}
	var unseen []*corev1.Pod
	for _, pod := range pods {
		key := pod.Annotations[wellknown.AnnotationGang]
		switch g := byKey[pod.Namespace+"/"+key]; {
		case !Ours(pod):
		case key == "":
			unseen = append(unseen, pod)
		case g != nil:
			g.pods = append(g.pods, pod)
		default:
			add(ownerOf(pod), key, pod)
		}
	}
	for _, pod := range unseen {
		o := ownerOf(pod)
		if of := byOwner[o]; len(of) == 1 {
			of[0].pods = append(of[0].pods, pod)
			continue
		}
		add(o, "", pod)
	}
	gangs := make([]Gang, len(groups))
	for i, g := range groups {
		gangs[i] = newGang(g.owner, g.key, g.pods)
	}
	slices.SortStableFunc(gangs, func(a, b Gang) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind),
			a.Created.Compare(b.Created.Time))
	})
	return gangs
}

// trainerLabels is the prefix of the labels that the pods of a TrainJob have.
const trainerLabels = "trainer.kubeflow.org/"

// ownerOf is whose a pod is: as the node says, else by its labels and owners.
func ownerOf(pod *corev1.Pod) owner {
	o := owner{namespace: pod.Namespace, kind: "Pod", name: pod.Name}
	controller := metav1.GetControllerOf(pod)
	set := pod.Labels[jobset.JobSetNameKey]
	kind, name, noted := strings.Cut(pod.Annotations[wellknown.AnnotationGangOwner], "/")
	switch {
	case noted:
		o.kind, o.name = kind, name
	case pod.Annotations[wellknown.AnnotationGangName] != "":
		o.kind, o.name = "Gang", pod.Annotations[wellknown.AnnotationGangName]
	case set != "":
		o.kind, o.name = "JobSet", set
	case controller != nil && controller.Kind == "MPIJob":
		o.kind, o.name = controller.Kind, controller.Name
	}
	if o.kind == "JobSet" && ofTrainJob(pod) {
		o.kind = "TrainJob" // its JobSet bears its name
	}
	return o
}

func ofTrainJob(pod *corev1.Pod) bool {
	for label := range pod.Labels {
		if strings.HasPrefix(label, trainerLabels) {
			return true
		}
	}
	return false
}

func newGang(o owner, key string, pods []*corev1.Pod) Gang {
	g := Gang{Namespace: o.namespace, Kind: o.kind, Name: o.name, Key: key}
	for _, pod := range pods {
		p := Pod{Name: pod.Name, HPCNode: pod.Annotations[wellknown.AnnotationHPCNode], Object: pod}
		p.State, p.Reason, p.Message = StateOf(pod)
		if rank, err := strconv.Atoi(pod.Annotations[wellknown.AnnotationRank]); err == nil {
			p.Rank = &rank
		}
		g.Pods = append(g.Pods, p)
	}
	slices.SortStableFunc(g.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(rankOrLast(a), rankOrLast(b)), cmp.Compare(a.Name, b.Name))
	})
	g.Created = g.Pods[0].Object.CreationTimestamp
	for _, p := range g.Pods {
		g.add(p)
	}
	g.Size = max(g.Size, g.living())
	if g.Size == 0 {
		g.Size = len(g.Pods)
	}
	if g.Submitted != nil && g.Submitted.Before(&g.Created) {
		g.Created = *g.Submitted
	}
	g.decide()
	if g.State == Completed {
		g.Ready = g.Size
	}
	return g
}

// Removed is the number of a gang's pods that were removed after it has ended.
func (g Gang) Removed() int {
	if !g.State.Ended() {
		return 0
	}
	return max(0, g.Size-len(g.Pods))
}

func rankOrLast(p Pod) int {
	if p.Rank == nil {
		return int(^uint(0) >> 1)
	}
	return *p.Rank
}

// add takes in what one pod says of its gang. Where pods differ, the newest job counts:
// those of an earlier one may be there still.
func (g *Gang) add(p Pod) {
	pod := p.Object
	if pod.CreationTimestamp.Before(&g.Created) {
		g.Created = pod.CreationTimestamp
	}
	if p.State == Running || p.State == Completed {
		g.Ready++
	}
	if pod.Spec.NodeName != "" {
		g.VirtualNode = pod.Spec.NodeName
	}
	if p.HPCNode != "" && !slices.Contains(g.HPCNodes, p.HPCNode) {
		g.HPCNodes = append(g.HPCNodes, p.HPCNode)
	}
	if at := timeOf(pod, wellknown.AnnotationExpectedStart); at != nil {
		g.ExpectedStart = at
	}
	job, submitted := pod.Annotations[wellknown.AnnotationJobID], timeOf(pod, wellknown.AnnotationSubmitted)
	if job == "" || g.JobID != "" && (submitted == nil || g.Submitted != nil && !submitted.After(g.Submitted.Time)) {
		return
	}
	g.JobID, g.Allocation, g.Submitted = job, pod.Annotations[wellknown.AnnotationAllocation], submitted
	if size, err := strconv.Atoi(pod.Annotations[wellknown.AnnotationSize]); err == nil {
		g.Size = size
	}
}

// living is the number of pods that have not ended.
func (g *Gang) living() int {
	n := 0
	for _, p := range g.Pods {
		if !p.State.Ended() {
			n++
		}
	}
	return n
}

func timeOf(pod *corev1.Pod, annotation string) *metav1.Time {
	at, err := time.Parse(time.RFC3339, pod.Annotations[annotation])
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: at}
}
