package translate

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Declaration is what an owner wants: its gang, and whether it will bring more
// pods.
type Declaration struct {
	Gang
	Gone      bool // deleted, being deleted, or without this gang
	Suspended bool
	Finished  bool
}

// ownerMeta is what is read of every owner's metadata.
type ownerMeta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               types.UID         `json:"uid"`
	Annotations       map[string]string `json:"annotations"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
}

// gang is a gang of this owner.
func (m ownerMeta) gang(key, kind string) Gang {
	return Gang{
		Key:         key,
		Namespace:   m.Namespace,
		Owner:       fmt.Sprintf("%s %s/%s", kind, m.Namespace, m.Name),
		OwnerName:   m.Name,
		OwnerUID:    m.UID,
		Refills:     true,
		Annotations: m.Annotations,
	}
}

// decode reads those fields of an owner that T has. Owners of kinds that need
// not be installed are read without their types, so that no version of theirs
// is tied to this program.
func decode[T any](u *unstructured.Unstructured) (T, error) {
	var v T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &v); err != nil {
		return v, fmt.Errorf("reading %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return v, nil
}
