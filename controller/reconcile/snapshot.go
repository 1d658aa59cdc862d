package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/controller/pipeline"
	"github.com/gangline/gangline/controller/runtimes"
)

// snapshots keep each TrainJob on the runtime as it was when the TrainJob was
// first looked at: a ConfigMap holds it, and a change of the runtime reaches new
// TrainJobs only.
type snapshots struct {
	client client.Client
	live   client.Reader // ConfigMaps are cached as metadata only
	loader runtimes.Loader

	mu    sync.Mutex
	known map[types.NamespacedName]snapshot
}

// snapshot is one that has been written or read, and the ConfigMap's identity
// then.
type snapshot struct {
	uid     types.UID
	version string
	runtime client.Object
}

func newSnapshots(c client.Client, live client.Reader) *snapshots {
	return &snapshots{
		client: c, live: live, loader: runtimes.Loader{Reader: c},
		known: map[types.NamespacedName]snapshot{},
	}
}

// input is what the TrainJob's objects are built from. The snapshot is made if
// there is none.
func (n *snapshots) input(ctx context.Context, trainJob *v1alpha1.TrainJob) (pipeline.Input, error) {
	runtime, err := n.runtime(ctx, trainJob)
	if err != nil {
		return pipeline.Input{}, err
	}
	namespace, err := n.loader.Namespace(ctx, trainJob)
	if err != nil {
		return pipeline.Input{}, err
	}
	return runtimes.FromRuntime(trainJob, runtime, namespace)
}

func (n *snapshots) runtime(ctx context.Context, trainJob *v1alpha1.TrainJob) (client.Object, error) {
	key := client.ObjectKey{Namespace: trainJob.Namespace, Name: runtimes.SnapshotName(trainJob)}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err := n.client.Get(ctx, key, there)
	switch {
	case apierrors.IsNotFound(err):
		return n.take(ctx, trainJob)
	case err != nil:
		return nil, fmt.Errorf("looking for the runtime's snapshot: %w", err)
	case !metav1.IsControlledBy(there, trainJob):
		// What is remembered under this name is an earlier TrainJob's too.
		return nil, notOurs(there, "ConfigMap "+there.Name, trainJob)
	}
	if known, ok := n.recall(trainJob); ok && known.uid == there.UID && known.version == there.ResourceVersion {
		return known.runtime, nil
	}
	return n.read(ctx, trainJob)
}

// take makes the snapshot from the runtime as it is now. If one turns out to
// exist, that counts.
func (n *snapshots) take(ctx context.Context, trainJob *v1alpha1.TrainJob) (client.Object, error) {
	// Not from the cache, which may lag behind a runtime that was changed in the
	// same kubectl apply: the TrainJob would keep the old one for ever.
	runtime, err := runtimes.Loader{Reader: n.live}.Runtime(ctx, trainJob)
	if err != nil {
		return nil, err
	}
	text, err := runtimes.EncodeSnapshot(runtime)
	if err != nil {
		return nil, err
	}
	configMap := &corev1.ConfigMap{
		ObjectMeta: framework.ChildMeta(trainJob, runtimes.SnapshotName(trainJob)),
		Data:       map[string]string{runtimes.SnapshotKey: text},
	}
	err = n.client.Create(ctx, configMap, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsAlreadyExists(err) {
		return n.read(ctx, trainJob)
	}
	if err != nil {
		return nil, fmt.Errorf("keeping a snapshot of the runtime: %w", err)
	}
	n.remember(trainJob, configMap, runtime)
	return runtime, nil
}

func (n *snapshots) read(ctx context.Context, trainJob *v1alpha1.TrainJob) (client.Object, error) {
	configMap := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: trainJob.Namespace, Name: runtimes.SnapshotName(trainJob)}
	if err := n.live.Get(ctx, key, configMap); err != nil {
		return nil, fmt.Errorf("reading the runtime's snapshot: %w", err)
	}
	if !metav1.IsControlledBy(configMap, trainJob) {
		return nil, notOurs(configMap, "ConfigMap "+configMap.Name, trainJob)
	}
	runtime, err := runtimes.DecodeSnapshot(trainJob, configMap)
	if err != nil {
		return nil, err
	}
	n.remember(trainJob, configMap, runtime)
	return runtime, nil
}

func (n *snapshots) recall(trainJob *v1alpha1.TrainJob) (snapshot, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s, ok := n.known[client.ObjectKeyFromObject(trainJob)]
	return s, ok
}

func (n *snapshots) remember(trainJob *v1alpha1.TrainJob, configMap *corev1.ConfigMap, runtime client.Object) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[client.ObjectKeyFromObject(trainJob)] = snapshot{
		uid: configMap.UID, version: configMap.ResourceVersion, runtime: runtime,
	}
}

func (n *snapshots) forget(trainJob types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, trainJob)
}

// isLeftover tells whether an error is about an object of an earlier TrainJob of
// the same name, which the garbage collector is about to remove.
func isLeftover(err error) bool {
	var foreign *notOursError
	return errors.As(err, &foreign) && foreign.leftover
}
