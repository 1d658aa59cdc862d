// Package fuzzer fills API objects with random values that JSON can carry, for
// tests of what the wire does to them. It is for tests only.
package fuzzer

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// Fill fills the object that is pointed to. The same seed gives the same
// values. Lists and maps are nil or have elements, because JSON's omitempty
// makes no difference between nil and empty.
func Fill(object any, seed int64) {
	randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 2).Funcs(
		// Times have whole seconds on the wire.
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.Unix(c.Int63n(int64(100*365*24*time.Hour/time.Second)), 0)
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1_000_000), resource.DecimalSI)
		},
		// Of its two values only the one that the type names is written.
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Int31())
			if c.Bool() {
				*v = intstr.FromString(c.String(0))
			}
		},
		// It must be JSON itself.
		func(f *metav1.FieldsV1, _ randfill.Continue) {
			f.SetRawBytes([]byte(`{"f:spec":{}}`))
		},
	).Fill(object)
}
