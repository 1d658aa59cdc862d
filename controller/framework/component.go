package framework

import "sigs.k8s.io/controller-runtime/pkg/client"

// WritePolicy says when a component is written.
type WritePolicy int

const (
	// Always: whenever what is wanted differs from what was last applied.
	Always WritePolicy = iota
	// UntilStarted: as Always, but what runs is never touched.
	UntilStarted
	// Once: created if it is absent and never changed, as keys are.
	Once
)

// Component is one object of a TrainJob's. Its name and namespace are known
// without building it, so that nothing is made that is not needed.
type Component struct {
	// Kind has the object's type, name and namespace only.
	Kind client.Object
	// Policy says when it is written.
	Policy WritePolicy
	// Object makes the complete object, with the TrainJob as its controller.
	Object func() (client.Object, error)
}
