// Package usage measures what containers use: processor time, memory, and
// accelerators.
//
// Nothing but a container's own processes is known to be its alone: workload
// managers give a cgroup to a job or a step, rarely to a container, and what the
// agent and its SSH service take is in it too. So it adds up processes: those
// that descend from this program and carry the container's mark in their
// environment, or descend from one that does (see package process).
//
// Processor time does not go back when processes end: the kernel adds an ended
// process's time to its parent, which has waited for it, and that of orphans to
// this program, which reaps them (wait4(2), proc(5)).
//
// Memory is resident memory, what several processes share counted once. The kernel
// tells how much that is (the proportional set size in smaps_rollup), but walks all
// pages to do so. So it is asked for rarely enough to take at most one percent of a
// processor, and between two answers the shared part is taken to have stayed.
// Files that a program only reads or writes, and files in memory that no
// process has mapped, do not count.
//
// The package knows nothing of slots' files or of Kubernetes.
package usage
