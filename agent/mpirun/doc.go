// Package mpirun is the mpirun and mpiexec that a pod finds first on its PATH, and
// the process that a workload manager starts for each of their ranks.
//
// In the launch mode ssh it asks the pod's agent whether all pods that the
// command line needs can take ranks, makes sure that their programs are of the MPI
// whose launcher stands next on PATH, and then becomes that, with the same words. In the launch mode srun it reads the command
// line itself, and asks the agent to have the workload manager start the ranks.
//
// It decides nothing about places and pods: the agent knows the gang. It reads
// what only the pod has: hostfiles, the environment, programs' files.
package mpirun
