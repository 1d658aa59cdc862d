// Package reconcile keeps what exists of a TrainJob equal to what it asks for:
// its runtime's snapshot, its components, and its status. Each look gathers
// first, decides in memory, writes components, and writes the status at most
// once. What the components are is the pipeline's affair.
//
// The rules are those of Kubeflow Trainer v2.3, but that a failed TrainJob stays
// failed, as in its next version.
package reconcile
