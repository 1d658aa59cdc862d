package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// burstSize is how many objects are created at once, and creators by how many
// clients.
const (
	burstSize = 1000
	creators  = 8
	// burstRounds are few, since the objects of a round are there in the next.
	burstRounds = 2
)

var (
	trainJobResource  = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	jobSetResource    = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
)

// burst is objects of one kind created at once, each of which becomes or is a
// JobSet.
type burst struct {
	namespace string
	resource  schema.GroupVersionResource
	manifest  string // %d is the object's number
}

// The two bursts have the same JobSets. They are suspended, so that what is
// measured is this controller and not those that make Jobs and pods.
var (
	bareJobSets = burst{"bare", jobSetResource, `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: burst-%d}
spec:
  suspend: true
  replicatedJobs:
  - name: node
    template:
      metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
      spec:
        parallelism: 4
        completions: 4
        template:
          spec:
            containers:
            - name: node
              image: pytorch
              command: [torchrun, train.py]
              ports: [{containerPort: 29500}]
              resources: {limits: {nvidia.com/gpu: "8"}}
              env:
              - {name: PET_NNODES, value: "4"}
              - {name: PET_NPROC_PER_NODE, value: auto}
              - {name: PET_NODE_RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}
              - {name: PET_MASTER_ADDR, value: burst-node-0-0.burst}
              - {name: PET_MASTER_PORT, value: "29500"}
`}
	trainJobs = burst{"trains", trainJobResource, `
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
`}
)

// run creates the objects and returns how long it takes until there are as many
// JobSets, in seconds.
func (u burst) run(ctx context.Context, objects dynamic.Interface) (float64, error) {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": u.namespace},
	}}
	if _, err := objects.Resource(namespaceResource).Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("making a namespace: %w", err)
	}
	jobSets, err := objects.Resource(jobSetResource).Namespace(u.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("watching the JobSets: %w", err)
	}
	defer jobSets.Stop()
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- u.create(ctx, objects.Resource(u.resource).Namespace(u.namespace)) }()
	if err := countAdded(ctx, jobSets, burstSize); err != nil {
		return 0, err
	}
	return time.Since(began).Seconds(), <-created
}

// inRound is the burst of a round, in a namespace of its own.
func (u burst) inRound(round int) burst {
	u.namespace = fmt.Sprintf("%s-%d", u.namespace, round)
	return u
}

// settle runs the burst, and waits until all that follows from it is done.
func (u burst) settle(ctx context.Context, objects dynamic.Interface) (float64, error) {
	took, err := u.run(ctx, objects)
	if err != nil {
		return 0, err
	}
	return took, settled(ctx, objects, u.namespace)
}

func (u burst) create(ctx context.Context, client dynamic.ResourceInterface) error {
	var next atomic.Int32
	var group sync.WaitGroup
	errs := make([]error, creators)
	for c := range creators {
		group.Go(func() {
			for n := next.Add(1); n <= burstSize && errs[c] == nil; n = next.Add(1) {
				object := &unstructured.Unstructured{}
				if errs[c] = yaml.Unmarshal(fmt.Appendf(nil, u.manifest, n), &object.Object); errs[c] == nil {
					_, errs[c] = client.Create(ctx, object, metav1.CreateOptions{})
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
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

// controllerCalls counts the controller's API requests so far.
func (b *bench) controllerCalls(ctx context.Context) (float64, error) {
	text, err := get(ctx, http.DefaultClient, b.env.Controller.MetricsURL())
	if err != nil {
		return 0, err
	}
	byMethod, err := sumBy(text, "rest_client_requests_total", "method")
	sum := 0.
	for _, n := range byMethod {
		sum += n
	}
	return sum, err
}

// measureTrainJobs reports how fast TrainJobs become JobSets, next to JobSets that
// are created as such.
func (b *bench) measureTrainJobs(ctx context.Context) error {
	config := rest.CopyConfig(b.config)
	config.QPS = -1 // the API server's own fairness decides
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	burst := figure{What: "until all have JobSets (bare: JobSets created as such)", Unit: "s"}
	rate := figure{What: "JobSets of TrainJobs", Unit: "1/s"}
	calls := figure{What: "API calls of the controller for each TrainJob", Unit: "calls"}
	for round := range min(b.rounds, burstRounds) {
		fmt.Fprintf(os.Stderr, "creating %d JobSets, and as many TrainJobs\n", burstSize)
		bare, took, err := inTurn(round,
			func() (float64, error) { return bareJobSets.inRound(round).settle(ctx, objects) },
			func() (took float64, err error) {
				made, took, err := b.callsOf(ctx, func() (float64, error) { return trainJobs.inRound(round).settle(ctx, objects) })
				calls.Ours = append(calls.Ours, made/burstSize)
				return took, err
			})
		if err != nil {
			return err
		}
		burst.add(bare, took)
		rate.Ours = append(rate.Ours, burstSize/took)
	}
	b.report.add(fmt.Sprintf("trainjobs, %d at once", burstSize), burst, rate, calls)
	return nil
}

// callsOf counts the controller's API requests while something runs.
func (b *bench) callsOf(ctx context.Context, run func() (float64, error)) (calls, took float64, err error) {
	before, err := b.controllerCalls(ctx)
	if err != nil {
		return 0, 0, err
	}
	if took, err = run(); err != nil {
		return 0, 0, err
	}
	after, err := b.controllerCalls(ctx)
	return after - before, took, err
}

// settled waits until all JobSets of a namespace have a status and, since
// somebody else's work would be measured otherwise, their Jobs.
func settled(ctx context.Context, objects dynamic.Interface, namespace string) error {
	return pollFor(ctx, 10*time.Minute, time.Second, func() (bool, error) {
		list, err := objects.Resource(jobSetResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("listing the JobSets: %w", err)
		}
		for _, item := range list.Items {
			jobs, _, _ := unstructured.NestedSlice(item.Object, "status", "replicatedJobsStatus")
			if len(jobs) == 0 {
				return false, nil
			}
		}
		return true, nil
	})
}
