// Devslurm starts, breaks and removes a real multi-node Slurm on one machine; the package
// above does the work, this is flags and wiring only.
package main
