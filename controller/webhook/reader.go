package webhook

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// freshReader reads from the cache and, what the cache does not have, from the
// API server: a runtime and its TrainJob are often applied in one go, and then
// the TrainJob comes before the cache has heard of the runtime.
type freshReader struct {
	cache, live client.Reader
}

var _ client.Reader = (*freshReader)(nil)

// Get reads one object. If there is none, the error is the cache's, which names
// the kind.
func (r *freshReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	missing := r.cache.Get(ctx, key, object, options...)
	if !apierrors.IsNotFound(missing) || key.Name == "" { // the server cannot be asked for no name
		return missing
	}
	if err := r.live.Get(ctx, key, object, options...); !apierrors.IsNotFound(err) {
		return err
	}
	return missing
}

// List lists what the cache has.
func (r *freshReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return r.cache.List(ctx, list, options...)
}
