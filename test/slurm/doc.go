// Package slurm runs a real multi-node Slurm on one machine, for development and for
// end-to-end tests: a head and N nodes, each in Linux namespaces of its own, with
// unmodified munged, slurmctld and slurmd and, where asked for, slurmrestd, slurmdbd
// and MariaDB.
//
// The cluster's network is joined to the caller's: Slurm's commands need only
// SLURM_CONF, and TCP ports on the nodes can be dialled. The folder SharedDir is
// the shared filesystem, visible under the same path everywhere.
//
// Start gives a cluster that ends with the program; with Config.Detach it stays, and
// Attach finds it again. Both need root.
//
// This package must not be imported by product code: when a program that imports
// it is started under the name of a cluster's internal process, it becomes that process.
package slurm
