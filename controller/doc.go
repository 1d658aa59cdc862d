// Package controller is where the TrainJob controller stands: the API types of
// Kubeflow Trainer v2, their defaults and validation, the runtime framework and
// its plugins, and the reconciler that turns a TrainJob into a JobSet. It may
// use package mpi and must know nothing of the HPC side.
//
// Until it is there, users bring JobSets, Jobs and pods.
package controller
