package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// trainJobs is how many are created at once, and creators by how many clients.
const (
	trainJobs = 1000
	creators  = 8
)

var (
	trainJobResource = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	jobSetResource   = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
)

// trainJobBench is the figures of one burst of TrainJobs.
type trainJobBench struct {
	took  float64 // seconds from the first creation to the last JobSet
	calls float64 // the controller's API calls for each TrainJob
}

// burst creates TrainJobs at once and waits until each has its JobSet. They are
// suspended, so that what is measured is this controller and not the ones that
// make Jobs and pods.
func (b *bench) burst(ctx context.Context, config *rest.Config) (trainJobBench, error) {
	const namespace = "burst"
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server's own fairness decides
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return trainJobBench{}, fmt.Errorf("making a client: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return trainJobBench{}, fmt.Errorf("making a client: %w", err)
	}
	_, err = clientset.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return trainJobBench{}, fmt.Errorf("making a namespace: %w", err)
	}
	before, err := b.controllerCalls(ctx)
	if err != nil {
		return trainJobBench{}, err
	}
	jobSets, err := objects.Resource(jobSetResource).Namespace(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return trainJobBench{}, fmt.Errorf("watching the JobSets: %w", err)
	}
	defer jobSets.Stop()
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- createTrainJobs(ctx, objects.Resource(trainJobResource).Namespace(namespace)) }()
	if err := countAdded(ctx, jobSets, trainJobs); err != nil {
		return trainJobBench{}, err
	}
	took := time.Since(began).Seconds()
	if err := <-created; err != nil {
		return trainJobBench{}, err
	}
	if err := poll(ctx, func() (bool, error) { return b.allSuspended(ctx, objects, namespace) }); err != nil {
		return trainJobBench{}, fmt.Errorf("waiting for the statuses: %w", err)
	}
	after, err := b.controllerCalls(ctx)
	if err != nil {
		return trainJobBench{}, err
	}
	warnings, err := clientset.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return trainJobBench{}, fmt.Errorf("reading the Events: %w", err)
	}
	for _, e := range warnings.Items {
		if e.Regarding.Kind == "TrainJob" {
			return trainJobBench{}, fmt.Errorf("a TrainJob was not built at once: %s", e.Note)
		}
	}
	return trainJobBench{took: took, calls: (after - before) / trainJobs}, nil
}

func createTrainJobs(ctx context.Context, client dynamic.ResourceInterface) error {
	var next atomic.Int32
	var group sync.WaitGroup
	errs := make([]error, creators)
	for c := range creators {
		group.Go(func() {
			for n := next.Add(1); n <= trainJobs; n = next.Add(1) {
				if _, err := client.Create(ctx, trainJob(n), metav1.CreateOptions{}); err != nil {
					errs[c] = fmt.Errorf("creating TrainJob %d: %w", n, err)
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func trainJob(n int32) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: burst-%d}
spec:
  suspend: true
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 4
    command: [torchrun, train.py]
    resourcesPerNode: {limits: {nvidia.com/gpu: "8"}}
`, n)
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		return nil // it is a constant
	}
	return u
}

func countAdded(ctx context.Context, w watch.Interface, want int) error {
	for n := 0; n < want; {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return errors.New("the watch of the JobSets ended early")
			}
			if event.Type == watch.Added {
				n++
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// allSuspended tells whether all TrainJobs have got their status.
func (b *bench) allSuspended(ctx context.Context, objects dynamic.Interface, namespace string) (bool, error) {
	list, err := objects.Resource(trainJobResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing the TrainJobs: %w", err)
	}
	for _, item := range list.Items {
		if conditions, _, _ := unstructured.NestedSlice(item.Object, "status", "conditions"); len(conditions) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// controllerCalls counts the controller's API requests so far.
func (b *bench) controllerCalls(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.env.Controller.MetricsURL(), nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	var sum float64
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "rest_client_requests_total{") {
			continue
		}
		fields := strings.Fields(lines.Text())
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("reading the controller's metrics: %w", err)
		}
		sum += n
	}
	return sum, lines.Err()
}

// runBurst prints the burst's figures.
func (b *bench) runBurst(ctx context.Context, config *rest.Config) error {
	fmt.Fprintf(os.Stderr, "creating %d TrainJobs\n", trainJobs)
	r, err := b.burst(ctx, config)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d TrainJobs at once\n", trainJobs)
	fmt.Printf("%-52s %8.2f\n", "until all have their JobSets (s)", r.took)
	fmt.Printf("%-52s %8.1f\n", "JobSets a second", trainJobs/r.took)
	fmt.Printf("%-52s %8.2f\n", "the controller's API calls for each TrainJob", r.calls)
	return nil
}
