// Command gen writes what is generated from the API's types: the deep copies
// and the CRDs under charts/gangline/crds. With --check it writes nothing and
// fails if a file in the tree is not what it would write.
//
// The work is controller-gen's, in a copy of the API package that is a module of
// its own (crd.mod, crd.sum) with the Kubernetes version of Kubeflow Trainer
// v2.3 and JobSet v0.12. A field of a later Kubernetes in the schema would be
// admitted here and refused in the JobSet, when it is too late to tell the user.
//
// Each CRD then gets v2alpha1, the version of KEP-2170's examples: the schema of
// v1alpha1 again, served and not stored.
package main
