// Package mpi holds what the common MPI implementations need to start ranks in
// the pods of a gang: hostfiles, the environment that points their launchers
// to the gang's own remote shell, and the gang's SSH keys and algorithms.
//
// Everything here is a pure function. The package reads no file, opens no
// connection and knows nothing of Kubernetes or of a workload manager.
//
// Sources of the rules: Open MPI 4 (orte/util/hostfile, orte/mca/plm/rsh), its
// successor PRRTE 3 and 4 (src/runtime/prte_mca_params.c, src/mca/plm/ssh),
// MPICH's Hydra (tools/bootstrap/external) and the Intel MPI Library's
// Developer Reference, chapter "Hydra Environment Variables".
package mpi
