// Package e2e tests Gangline as a user meets it: a real API server, scheduler,
// controller-manager and JobSet controller, a real Slurm with several nodes,
// real MPI. Each group of tests has a virtual node and a Slurm of its own, so
// that the groups run side by side.
package e2e
