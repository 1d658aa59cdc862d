package runtimes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// SnapshotKey is the key of a snapshot's ConfigMap under which the runtime is.
const SnapshotKey = "runtime"

// SnapshotName is the name of the ConfigMap with the TrainJob's snapshot.
func SnapshotName(trainJob *v1alpha1.TrainJob) string {
	return trainJob.Name + "-runtime-snapshot"
}

// EncodeSnapshot is the whole runtime as YAML, without the record of who owns
// which field.
func EncodeSnapshot(runtime client.Object) (string, error) {
	kept := runtime.DeepCopyObject().(client.Object)
	kept.SetManagedFields(nil)
	kept.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindOf(runtime)))
	text, err := yaml.Marshal(kept)
	if err != nil {
		return "", fmt.Errorf("encoding the runtime's snapshot: %w", err)
	}
	return string(text), nil
}

// DecodeSnapshot reads the runtime that the TrainJob refers to from a snapshot.
func DecodeSnapshot(trainJob *v1alpha1.TrainJob, configMap *corev1.ConfigMap) (client.Object, error) {
	text, ok := configMap.Data[SnapshotKey]
	if !ok {
		return nil, fmt.Errorf("the runtime's snapshot, ConfigMap %s, has no key %q: delete it to take a new one", configMap.Name, SnapshotKey)
	}
	runtime, err := newRuntime(trainJob.Spec.RuntimeRef)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal([]byte(text), runtime); err != nil {
		return nil, fmt.Errorf("the runtime's snapshot, ConfigMap %s, cannot be read: delete it to take a new one: %w", configMap.Name, err)
	}
	got := runtime.GetObjectKind().GroupVersionKind()
	if got.Group != v1alpha1.GroupVersion.Group || got.Kind != kindOf(runtime) || runtime.GetName() != trainJob.Spec.RuntimeRef.Name {
		return nil, fmt.Errorf("the runtime's snapshot, ConfigMap %s, holds %s %q and not the TrainJob's runtime: delete it to take a new one",
			configMap.Name, got.GroupKind(), runtime.GetName())
	}
	return runtime, nil
}
