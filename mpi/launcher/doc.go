// Package launcher reads command lines of mpirun and mpiexec, lays their ranks
// on the pods of a gang, and says by which command a workload manager starts
// them.
//
// Everything here is a pure function: what a command line names (a hostfile, the
// launcher's own variables) is read by the caller. The package knows no
// Kubernetes, opens nothing and starts nothing.
//
// The options are those of Open MPI 4 and 5 (mpirun(1), prterun(1)), MPICH's
// Hydra (mpiexec -help) and Intel MPI's; an option means the same in all of them,
// so one table serves all. Those of srun are srun(1)'s of Slurm 22.05.
package launcher
