// Package runtimes finds the TrainingRuntime or ClusterTrainingRuntime that a
// TrainJob refers to, live or from the TrainJob's snapshot, and makes of both
// what the pipeline takes in. It writes nothing.
package runtimes
