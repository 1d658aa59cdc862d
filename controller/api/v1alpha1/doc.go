// Package v1alpha1 holds the types of trainer.kubeflow.org/v1alpha1 as Kubeflow
// Trainer v2.3 serves them: the same fields, defaults, CEL rules and list types,
// in our own words. It adds nothing on the wire but the short name tj and the
// MPI implementations Intel and MPICH, and must not: clients compare whole
// objects. Behaviour lives elsewhere; this package has data only.
//
// The same schema is served as v2alpha1, the version of KEP-2170's examples.
//
// +kubebuilder:object:generate=true
// +groupName=trainer.kubeflow.org
package v1alpha1
