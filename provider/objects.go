package provider

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects remembers, for a while, what the API server said of the objects that pods
// refer to. They are read by name, each once for all pods that share it: the node need
// neither watch everybody's ConfigMaps and Secrets nor be allowed to list them. What it
// returns is shared and must not be changed.
type objects struct {
	reader client.Reader
	clock  clock.PassiveClock
	// keep is how long what is asked for again and again is good, and how long what
	// nobody asks for is remembered.
	keep time.Duration

	mu      sync.Mutex
	entries map[objectKey]*objectEntry
	swept   time.Time
}

type objectKey struct {
	kind reflect.Type
	name types.NamespacedName
}

// objectEntry is what is known of one name.
type objectEntry struct {
	asked time.Time // guarded by the table's lock

	mu     sync.Mutex // held while it is read, so that it is read once
	read   time.Time  // when that began; zero before
	object client.Object
}

func newObjects(reader client.Reader, clock clock.PassiveClock, keep time.Duration) *objects {
	return &objects{reader: reader, clock: clock, keep: keep, entries: map[objectKey]*objectEntry{}}
}

// read returns an object that is no older than maxAge, or nil if there is none of the
// name. One that is immutable is not read again as long as it is asked for at the pace
// at which pods follow changes.
func read[O any, P interface {
	*O
	client.Object
}](ctx context.Context, c *objects, name types.NamespacedName, maxAge time.Duration) (P, error) {
	e := c.entry(objectKey{reflect.TypeFor[O](), name})
	e.mu.Lock()
	defer e.mu.Unlock()
	have, _ := e.object.(P)
	now := c.clock.Now()
	fresh := now.Sub(e.read) <= maxAge || maxAge >= c.keep && isImmutable(e.object)
	if fresh && !e.read.IsZero() {
		return have, nil
	}
	object := P(new(O))
	err := c.reader.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err):
		e.read, e.object = now, nil
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %T %s: %w", object, name, err)
	}
	e.read, e.object = now, object
	return object, nil
}

func isImmutable(object client.Object) bool {
	var immutable *bool
	switch o := object.(type) {
	case *corev1.ConfigMap:
		immutable = o.Immutable
	case *corev1.Secret:
		immutable = o.Immutable
	}
	return immutable != nil && *immutable
}

// entry returns the entry of a name, and now and then drops those that nobody asks for.
func (c *objects) entry(key objectKey) *objectEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if now.Sub(c.swept) > c.keep {
		c.swept = now
		for k, e := range c.entries {
			if now.Sub(e.asked) > 2*c.keep {
				delete(c.entries, k)
			}
		}
	}
	e := c.entries[key]
	if e == nil {
		e = &objectEntry{}
		c.entries[key] = e
	}
	e.asked = now
	return e
}
