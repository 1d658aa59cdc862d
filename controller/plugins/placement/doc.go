// Package placement sends the pods of a TrainJob that names an HPC cluster to
// that cluster's virtual nodes: those that ask for a GPU, and those that train.
// What an administrator or a user has said of the allocation, on the namespace,
// the runtime or the TrainJob, it passes on with the JobSet, where the virtual
// node reads it.
//
// A TrainJob that names no cluster is left as it is.
package placement
