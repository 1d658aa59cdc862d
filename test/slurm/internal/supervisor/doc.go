// Package supervisor is the process that owns one dev Slurm cluster: it claims a
// network, starts the machines and Slurm's daemons in them, takes orders on a
// socket, and takes everything down when it ends, however it ends.
//
// The supervisor is the running program started again under the name Name. To
// make that work from any program, test binaries included, this package looks
// at argv[0] when it is initialized; in every other program that does nothing.
// It imports little, so that this happens before a large program's other
// packages are initialized.
package supervisor
