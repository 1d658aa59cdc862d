package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// The batched paths at the size of 10,000 pods, each alone. docs/scale.md has the figures.

const (
	benchGangs = 100
	benchSlots = 100 // of each gang
	benchPods  = benchGangs * benchSlots
)

// processor is the process's own time so far: what a machine that others use does not
// change.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan looks at the reports of 10,000 slots: when nothing has changed, as nearly
// always, and when one pod of each gang has.
func BenchmarkScan(b *testing.B) {
	root := spool.Root(b.TempDir())
	var all []*allocation
	report := func(a *allocation, slot int) {
		status := spool.Status{Agent: spool.Agent{Instance: "i", Node: "n", Address: "10.0.0.1"}, Pod: &spool.PodStatus{
			UID: "u", Containers: []corev1.ContainerStatus{{Name: "main", ContainerID: "gangline://u/main/0"}},
		}}
		if err := spool.Write(a.dir.Status(slot), status); err != nil {
			b.Fatal(err)
		}
	}
	for i := range benchGangs {
		a := &allocation{site: site.Local{}, gang: spool.Gang{Allocation: fmt.Sprintf("gang-%d", i), Slots: make([]spool.Slot, benchSlots)}}
		a.dir = root.Dir(a.name())
		if err := a.dir.Create(benchSlots); err != nil {
			b.Fatal(err)
		}
		if err := spool.Write(a.dir.Claim(), spool.Claim{}); err != nil {
			b.Fatal(err)
		}
		for k := range benchSlots {
			report(a, k)
		}
		all = append(all, a)
	}
	table := newStatusTable(nil, time.Second)
	if err := table.scanAll(b.Context(), all); err != nil {
		b.Fatal(err)
	}
	for sentence, change := range map[string]int{"nothing has changed": 0, "one pod of each gang has": benchGangs} {
		b.Run(sentence, func(b *testing.B) {
			b.ReportAllocs()
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				for _, a := range all[:change] {
					report(a, 0)
				}
				before := processor(b)
				b.StartTimer()
				changed, err := table.scan(b.Context(), all)
				used += processor(b) - before
				if err != nil || len(changed) != change {
					b.Fatalf("%d have changed: %v", len(changed), err)
				}
			}
			b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// benchPod is a pod before and after its start.
func benchPod() (before, after *corev1.Pod) {
	before = translatetest.MakePod("p").Annotation(wellknown.AnnotationJobID, "7").Obj()
	before.Finalizers = []string{wellknown.Finalizer}
	before.Status = corev1.PodStatus{Phase: corev1.PodPending, Reason: wellknown.ReasonQueued, Message: "Slurm job 7 waits"}
	after = before.DeepCopy()
	after.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1",
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true, ContainerID: "gangline://u/main/0"}},
	}
	return before, after
}

// BenchmarkPodPatch compares one pod with what is to be shown.
func BenchmarkPodPatch(b *testing.B) {
	before, after := benchPod()
	for sentence, to := range map[string]*corev1.Pod{"nothing to write": before.DeepCopy(), "a pod that starts": after} {
		b.Run(sentence, func(b *testing.B) {
			b.ReportAllocs()
			began := processor(b)
			for b.Loop() {
				if _, err := podPatch(before, to); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processor(b)-began).Seconds()*1e6/float64(b.N), "cpu-us/op")
		})
	}
}

// BenchmarkStatusWrites writes the statuses of a gang's pods, eight at a time through the
// rate limiter, to an API server that takes no time.
func BenchmarkStatusWrites(b *testing.B) {
	before, after := benchPod()
	answer, err := clientAnswer(after)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	ctrllog.SetLogger(logr.Discard())
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL, RateLimiter: flowcontrol.NewTokenBucketRateLimiter(apiQPS, apiBurst)},
		client.Options{Scheme: clientscheme.Scheme, Mapper: mapper})
	if err != nil {
		b.Fatal(err)
	}
	changes := make([]podChange, benchSlots)
	for i := range changes {
		changes[i] = podChange{before, after}
	}
	w := newWrites(c)
	b.ReportAllocs()
	began := processor(b)
	for b.Loop() {
		for _, result := range w.patchAll(b.Context(), changes) {
			if result.err != nil {
				b.Fatal(result.err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*benchSlots/b.Elapsed().Seconds(), "pods/s")
	b.ReportMetric((processor(b)-began).Seconds()*1e6/float64(b.N)/benchSlots, "cpu-us/pod") // the server's too
}

func clientAnswer(pod *corev1.Pod) ([]byte, error) {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return json.Marshal(pod)
}

// eventSink counts what reaches the API server.
type eventSink struct{ created, patched chan struct{} }

func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	s.created <- struct{}{}
	return e, nil
}

func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) { return e, nil }

func (s eventSink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	s.patched <- struct{}{}
	return e, nil
}

// BenchmarkEvents tells of what is the same for a pod again and again, which client-go's
// correlator makes few writes of.
func BenchmarkEvents(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	sink := eventSink{make(chan struct{}, 1<<20), make(chan struct{}, 1<<20)}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: component})
	pod, _ := benchPod()
	told := 0
	b.ReportAllocs()
	began := processor(b)
	for b.Loop() {
		recorder.Event(pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container")
		told++
	}
	b.ReportMetric((processor(b)-began).Seconds()*1e6/float64(told), "cpu-us/op")
	b.ReportMetric(float64(len(sink.created)+len(sink.patched))/float64(told), "writes/Event")
}
