// Package jax prepares training nodes for jax.distributed.initialize(), which
// reads the number of processes, its own and the coordinator's address from the
// environment. One process runs on each node.
//
// Nothing is reserved: the TrainJob's env comes after these variables and may
// replace them, as in Kubeflow Trainer.
package jax
