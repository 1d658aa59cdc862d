package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/wellknown"
)

// namespace is where all pods are.
const namespace = "scale"

// labelBatch tells the pods of one part of the run.
const labelBatch = "batch"

// creators create pods side by side.
const creators = 16

// batch is pods that are created together.
type batch struct {
	name        string
	pods, gangs int // 0 gangs for one of each pod
	scheduled   bool
	ends        bool   // its programs end by themselves: see program
	seed        uint64 // of the programs
}

// size is how many jobs the batch needs.
func (b batch) jobs() int {
	if b.gangs == 0 {
		return b.pods
	}
	return b.gangs
}

// pod is the batch's ith.
func (b batch) pod(i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", b.name, i), Labels: map[string]string{labelBatch: b.name}},
		Spec: corev1.PodSpec{
			// A token of each pod would be one more call of the API server.
			AutomountServiceAccountToken:  ptr.To(false),
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			NodeSelector:                  map[string]string{corev1.LabelHostname: nodeName},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "example.org/app:1", Command: []string{"forever"},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		},
	}
	if b.ends {
		p.Spec.Containers[0].Command, _ = program(b.seed, i)
	}
	if !b.scheduled {
		p.Spec.NodeName = nodeName
	}
	if b.gangs > 0 {
		size := b.pods / b.gangs
		p.Annotations = map[string]string{
			wellknown.AnnotationGangName: fmt.Sprintf("%s-%d", b.name, i/size), wellknown.AnnotationGangSize: fmt.Sprint(size),
		}
	}
	return p
}

// create creates all pods of a batch, one gang after the other.
func (w *world) create(ctx context.Context, b batch, seen *watched) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range b.pods {
		group.Go(func() error {
			p := b.pod(i)
			seen.creating(p.Name)
			if _, err := w.clients.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating pod %s: %w", p.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// watched is what an independent watch sees of the pods. Each pod takes some hundred
// bytes.
type watched struct {
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	created map[string]time.Time
	ran     map[string]time.Time
	pods    map[string]seenPod
	news    chan struct{}
}

type seenPod struct {
	batch, job string
	// uid and allocation tell whose it is on the HPC side.
	uid, allocation string
	phase           corev1.PodPhase
	reason          string // the pod's own, for what its program has no part in
	code            int32  // of its program; -1 before it has one
	broken          string // why what was shown cannot be true, empty for nothing
}

// sight is what a pod shows.
func sight(p *corev1.Pod) seenPod {
	now := seenPod{
		batch: p.Labels[labelBatch], uid: string(p.UID), job: p.Annotations[wellknown.AnnotationJobID],
		allocation: p.Annotations[wellknown.AnnotationAllocation], phase: p.Status.Phase, reason: p.Status.Reason, code: -1,
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			now.code = max(now.code, t.ExitCode)
		}
	}
	return now
}

// after is a sight with what is wrong about its being the next one.
func (p seenPod) after(before seenPod) seenPod {
	p.broken = before.broken
	back := before.phase == corev1.PodRunning && p.phase == corev1.PodPending
	if back || before.over() && (p.phase != before.phase || p.code != before.code) {
		p.broken = fmt.Sprintf("it was %s (%d) and became %s (%d)", before.phase, before.code, p.phase, p.code)
	}
	return p
}

// watch begins to watch. The watch ends before what it watches.
func (w *world) watch(ctx context.Context) (*watched, error) {
	seen := &watched{
		created: map[string]time.Time{}, ran: map[string]time.Time{}, pods: map[string]seenPod{}, news: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(w.clients, 0, informers.WithNamespace(namespace), informers.WithTransform(onlySeen))
	w.ends = append(w.ends, func() error { cancel(); factory.Shutdown(); return nil })
	seen.informer = factory.Core().V1().Pods().Informer()
	_, err := seen.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen.see(o) },
		UpdateFunc: func(_, o any) { seen.see(o) },
		DeleteFunc: func(o any) { seen.gone(o) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), seen.informer.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return seen, nil
}

// onlySeen keeps of a pod what see looks at.
func onlySeen(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
			Annotations: map[string]string{
				wellknown.AnnotationJobID: p.Annotations[wellknown.AnnotationJobID], wellknown.AnnotationAllocation: p.Annotations[wellknown.AnnotationAllocation],
			},
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason, ContainerStatuses: ended(p.Status.ContainerStatuses)},
	}, nil
}

// ended keeps the exit codes of containers that have ended.
func ended(all []corev1.ContainerStatus) (codes []corev1.ContainerStatus) {
	for _, c := range all {
		if t := c.State.Terminated; t != nil {
			codes = append(codes, corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: t.ExitCode}}})
		}
	}
	return codes
}

func (s *watched) creating(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created[name] = time.Now()
}

func (s *watched) see(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[p.Name] = sight(p).after(s.pods[p.Name])
	if _, before := s.ran[p.Name]; p.Status.Phase == corev1.PodRunning && !before {
		s.ran[p.Name] = time.Now()
	}
	s.tell()
}

func (s *watched) gone(o any) {
	if tomb, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tomb.Obj
	}
	if p, ok := o.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pods, p.Name)
		s.tell()
	}
}

// tell wakes who waits. The caller holds the lock.
func (s *watched) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// all are the pods of a batch, by name.
func (s *watched) all(b batch) map[string]seenPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]seenPod{}
	for name, p := range s.pods {
		if p.batch == b.name {
			all[name] = p
		}
	}
	return all
}

// count is how many pods of a batch are as wanted.
func (s *watched) count(b batch, wanted func(seenPod) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.pods {
		if p.batch == b.name && wanted(p) {
			n++
		}
	}
	return n
}

// wait waits until the pods are as they are to be. It looks when something has changed,
// and at most ten times a second.
func (s *watched) wait(ctx context.Context, most time.Duration, what string, missing func() int) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		n := missing()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d are missing after %v", what, n, most)
		case <-s.news:
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// latencies are the times from the wish to create each pod of a batch until the watch
// showed it Running, the shortest first, and first and last moment of it all.
func (s *watched) latencies(b batch) (each []time.Duration, first, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.pods {
		name := fmt.Sprintf("%s-%d", b.name, i)
		created, ran := s.created[name], s.ran[name]
		if ran.IsZero() {
			continue
		}
		each = append(each, ran.Sub(created))
		if first.IsZero() || created.Before(first) {
			first = created
		}
		if ran.After(last) {
			last = ran
		}
	}
	slices.Sort(each)
	return each, first, last
}
