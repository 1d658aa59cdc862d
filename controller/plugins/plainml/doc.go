// Package plainml is the policy of runtimes without a framework that needs
// preparation: the TrainJob's number of nodes and its environment, nothing more.
// As in Kubeflow Trainer it also runs before xgboost and flux, which leave both
// to it; torch, mpi and jax see to them on their own.
package plainml
