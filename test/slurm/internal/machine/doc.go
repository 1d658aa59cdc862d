// Package machine makes a set of Linux namespaces that behaves like a computer
// of its own (processes, mounts, host name, network, IPC), and runs commands in
// one. It knows nothing of Slurm.
//
// A machine lives exactly as long as its first process, which mounts what a
// machine needs, then reaps orphans for ever. That process is the running
// program started again under the name InitName; a program that can start
// machines must therefore call RunInit early, when it was started under that
// name. The kernel kills a machine when the thread that started it ends.
package machine
