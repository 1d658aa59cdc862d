// Package harness starts the real parts that the demo and the end-to-end tests
// stand on: the dev control plane, a dev Slurm, and gangline-node between them,
// run as the ordinary user that owns the jobs.
package harness
