package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// measureCompletion reports how long many gangs of one pod that does nothing take until
// all have ended, next to a shell's loop that calls sbatch, and how often
// gangline-node writes to the API server for each. The loop's jobs start their program by
// srun, as batch scripts do; how long it takes without is told too.
func (b *bench) measureCompletion(ctx context.Context) error {
	for _, load := range []struct {
		pods, rounds int
		goal         *goal
	}{
		{100, b.rounds, ratioAtMost(1.25)},
		{200, min(b.rounds, 3), nil},
		{1000, 1, nil},
	} {
		if load.pods > b.most {
			continue
		}
		took := figure{What: fmt.Sprintf("%d pods, a gang each: all have ended (bare: a loop of sbatch)", load.pods), Unit: "s", Goal: load.goal}
		shell := figure{What: "  bare: scripts without srun", Unit: "s"}
		released := figure{What: "  ours: until the queue is empty too, as the bare loop is timed", Unit: "s"}
		var writes writesPerPod
		for round := range load.rounds {
			var empty float64
			one, other, err := inTurn(round,
				func() (float64, error) { return b.sbatchLoop(ctx, load.pods, "srun true") },
				func() (float64, error) {
					return writes.count(ctx, b, load.pods, func() (took float64, err error) {
						took, empty, err = b.podsToEnd(ctx, load.pods)
						return took, err
					})
				})
			if err != nil {
				return err
			}
			plain, err := b.sbatchLoop(ctx, load.pods, "true")
			if err != nil {
				return err
			}
			took.add(one, other)
			shell.add(plain, other)
			released.add(one, empty)
			fmt.Fprintf(os.Stderr, "round %d, %d jobs: sbatch %.2f s (%.2f s without srun), pods %.2f s\n", round+1, load.pods, one, plain, other)
		}
		b.report.add("completion", took, released, shell, writes.pods, writes.events, writes.others)
	}
	return nil
}

// writesPerPod is how often gangline-node writes to the API server in a pod's life.
type writesPerPod struct{ pods, events, others figure }

// count calls run and counts the writes until all of them have been made.
func (w *writesPerPod) count(ctx context.Context, b *bench, pods int, run func() (float64, error)) (float64, error) {
	w.pods.What, w.pods.Unit, w.pods.Goal = "  writes of each pod to the API server", "writes", atMost(4)
	w.events.What, w.events.Unit = "  and Events", "writes"
	w.others.What, w.others.Unit = "  and all others, the node's lease and the tokens of ServiceAccounts among them", "writes"
	before, err := b.apiWrites(ctx)
	if err != nil {
		return 0, err
	}
	took, err := run()
	if err != nil {
		return 0, err
	}
	after, err := b.allWrites(ctx)
	if err != nil {
		return 0, err
	}
	made := madePerPod(before, after, pods)
	if made.pods == 0 {
		return 0, errors.New("gangline-node's metrics tell of no write of a pod: no figure of writes is true")
	}
	w.pods.Ours = append(w.pods.Ours, made.pods)
	w.events.Ours = append(w.events.Ours, made.events)
	w.others.Ours = append(w.others.Ours, made.others)
	return took, nil
}

// allWrites are the writes when no more Events wait for their turn.
func (b *bench) allWrites(ctx context.Context) (map[string]float64, error) {
	var last map[string]float64
	err := pollFor(ctx, 2*time.Minute, 2*time.Second, func() (bool, error) {
		now, err := b.apiWrites(ctx)
		same := err == nil && last != nil && madePerPod(last, now, 1).events == 0
		last = now
		return same, err
	})
	return last, err
}

// kinds are writes by what they are of, for each pod.
type kinds struct{ pods, events, others float64 }

// madePerPod sorts the writes between two moments.
func madePerPod(before, after map[string]float64, pods int) (k kinds) {
	for resource, n := range after {
		n = (n - before[resource]) / float64(pods)
		kind, _, _ := strings.Cut(resource, "/")
		switch kind {
		case "events":
			k.events += n
		case "pods":
			k.pods += n
		default:
			k.others += n
		}
	}
	return k
}

// podsToEnd is how long pods take from the first one's creation until the last has
// succeeded in the API server, and until Slurm's queue is empty.
func (b *bench) podsToEnd(ctx context.Context, pods int) (took, empty float64, err error) {
	const label = "bench"
	w, err := b.watchPods(ctx, label)
	if err != nil {
		return 0, 0, fmt.Errorf("watching the pods: %w", err)
	}
	defer w.Stop()
	began := time.Now()
	created := make(chan error, 1)
	go func() { created <- b.createPods(ctx, pods, label) }()
	ended := func(p *corev1.Pod) (bool, error) {
		if p.Status.Phase == corev1.PodFailed {
			return false, fmt.Errorf("pod %s failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
		}
		return p.Status.Phase == corev1.PodSucceeded, nil
	}
	if err := await(ctx, w, pods, ended); err != nil {
		return 0, 0, fmt.Errorf("waiting for %d pods to end: %w", pods, errors.Join(err, firstOf(created)))
	}
	took = time.Since(began).Seconds()
	if err := pollFor(ctx, 5*time.Minute, 100*time.Millisecond, b.idle(ctx)); err != nil {
		return 0, 0, err
	}
	empty = time.Since(began).Seconds()
	if err := <-created; err != nil {
		return 0, 0, err
	}
	return took, empty, b.deletePods(ctx, label)
}

// deletePods deletes the pods of a label and waits until they are gone. (kubectl bounds
// itself to five calls a second, two of which it takes for each pod.)
func (b *bench) deletePods(ctx context.Context, label string) error {
	selected := metav1.ListOptions{LabelSelector: label}
	if err := b.pods.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return fmt.Errorf("deleting the pods: %w", err)
	}
	return pollFor(ctx, 5*time.Minute, 200*time.Millisecond, func() (bool, error) {
		left, err := b.pods.List(ctx, selected)
		return err == nil && len(left.Items) == 0, err
	})
}

func firstOf(c <-chan error) error {
	select {
	case err := <-c:
		return err
	default:
		return nil
	}
}

// watchPods watches the pods of a label; the API server may end a watch at any time, and it
// then goes on where it was.
func (b *bench) watchPods(ctx context.Context, label string) (watch.Interface, error) {
	now, err := b.pods.List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	return toolswatch.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = label
			return b.pods.Watch(ctx, o)
		},
	})
}

// await reads a watch until so many pods are as wanted.
func await(ctx context.Context, w watch.Interface, pods int, wanted func(*corev1.Pod) (bool, error)) error {
	seen := map[string]bool{}
	for len(seen) < pods {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return fmt.Errorf("the watch of the pods ended when %d of %d were there", len(seen), pods)
			}
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			yes, err := wanted(pod)
			if err != nil {
				return err
			}
			if yes {
				seen[pod.Name] = true
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// createPods creates pods that do nothing, by several clients at once.
func (b *bench) createPods(ctx context.Context, pods int, label string) error {
	config := rest.CopyConfig(b.config)
	config.QPS = -1 // the API server's own fairness decides
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var next atomic.Int32
	var group sync.WaitGroup
	errs := make([]error, creators)
	for c := range creators {
		group.Go(func() {
			for n := next.Add(1); int(n) <= pods && errs[c] == nil; n = next.Add(1) {
				_, errs[c] = clientset.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, idlePod(fmt.Sprintf("bench-%d", n), b.env.Name, label), metav1.CreateOptions{})
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// idlePod asks for as much as a job of the loop.
func idlePod(name, node, label string) *corev1.Pod {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector:  map[string]string{corev1.LabelHostname: node},
			Tolerations:   []corev1.Toleration{{Key: "virtual-kubelet.io/provider", Operator: corev1.TolerationOpExists}},
			Containers:    []corev1.Container{{Name: "main", Image: "host", Command: []string{"true"}, Resources: corev1.ResourceRequirements{Requests: size}}},
		},
	}
}
