// Package local is the embedded workload manager: simulated nodes as processes
// on this machine, for trying Gangline out and for its tests. It is a
// wlm.Manager like Slurm is, with one partition, a strict first-come
// first-served queue, and gangs that start whole or wait whole.
//
// Its state is files in one directory, and nothing else: a job's agents run on
// when the manager dies, and the next one finds the queue and the running jobs
// again. No task is ever started twice.
//
//	<state>/lock                held by the manager that is at work
//	<state>/last-id             the number of the youngest job
//	<state>/jobs/<id>/job.json  what was asked, where it runs, how it ended
//	<state>/jobs/<id>/<task>.stat   the task's process, written by its starter before it starts anything
//	<state>/jobs/<id>/<task>.exit   its exit status, written by its starter
//
// It isolates nothing: a node is a name, an address, and numbers that are
// counted. It must not be used where users do not trust each other.
package local
