package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// newScheme knows the kinds that are read or written as Go types.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, jobsetv1alpha2.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// cacheOptions keep little in memory. The Secrets and ConfigMaps of the whole
// cluster are watched for those that TrainJobs own, so only what tells this is
// kept of each.
func cacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:    {Transform: keepIdentity},
			&corev1.ConfigMap{}: {Transform: keepIdentity},
		},
	}
}

// keepIdentity keeps an object's name, version and owners.
func keepIdentity(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // of a deletion that was missed
	}
	return &metav1.PartialObjectMetadata{
		TypeMeta: full.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:              full.Name,
			Namespace:         full.Namespace,
			UID:               full.UID,
			ResourceVersion:   full.ResourceVersion,
			OwnerReferences:   full.OwnerReferences,
			DeletionTimestamp: full.DeletionTimestamp,
		},
	}, nil
}

// newClient reads from the cache, but for the contents of Secrets and
// ConfigMaps: a cached read of one would make the cache keep all.
func newClient(config *rest.Config, options client.Options) (client.Client, error) {
	cached, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	options.Cache = nil
	live, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return &contentsLive{Client: cached, live: live}, nil
}

type contentsLive struct {
	client.Client
	live client.Reader
}

// Get reads one object.
func (c *contentsLive) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch object.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		return c.live.Get(ctx, key, object, options...)
	}
	return c.Client.Get(ctx, key, object, options...)
}

// List reads several objects.
func (c *contentsLive) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.SecretList, *corev1.ConfigMapList:
		return c.live.List(ctx, list, options...)
	}
	return c.Client.List(ctx, list, options...)
}
