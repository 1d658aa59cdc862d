package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// WireVersion is the version of Kubeflow Trainer whose API and objects ours are.
const WireVersion = "v2.3.0"

// The ConfigMap that tells clients the version; the Kubeflow SDK reads it.
const (
	publicConfigMap = "kubeflow-trainer-public"
	versionKey      = "kubeflow_trainer_version"
)

// publishVersion keeps the public ConfigMap, and leaves its other keys alone.
func (p *process) publishVersion(ctx context.Context) error {
	is := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: p.Namespace, Name: publicConfigMap}
	err := p.mgr.GetAPIReader().Get(ctx, key, is)
	if err == nil && is.Data[versionKey] == WireVersion {
		return nil
	}
	if err == nil || apierrors.IsNotFound(err) {
		err = p.mgr.GetClient().Apply(ctx,
			applycorev1.ConfigMap(publicConfigMap, p.Namespace).WithData(map[string]string{versionKey: WireVersion}),
			client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership)
	}
	if err != nil {
		// Its absence is but a warning for clients, and no reason to end.
		p.mgr.GetLogger().Error(err, "cannot publish the version; the SDK will warn of that", "configMap", key)
	}
	return nil
}
