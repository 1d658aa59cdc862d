// Package mpi prepares launcher and nodes for mpirun, as Kubeflow Trainer's
// policy mpi does: SSH keys in a Secret, a hostfile in a ConfigMap, and the
// launcher's variables that name the hostfile. What Kubeflow has for Open MPI
// alone is here for MPICH and the Intel MPI Library as well.
//
// The pods' launch on the HPC side is none of its business: the virtual node
// replaces the remote shell there. Formats of hostfiles are those of
// gangline/mpi.
package mpi
