// Package simulator is a workload manager without nodes: a queue, HPC nodes that exist
// as numbers, and agents that are some lines of this program. It implements
// wlm.Manager, so a real virtual node works with it, and takes ten thousands of pods on
// one machine.
//
// The agents keep to the protocol of the spool to the letter, in the same files as real
// ones: the launcher's claim, the reports with a key, orders that are opened with that
// key, the pods' states, stops, the release, the launcher's last word. So the node has
// the same work as with real agents, and cannot tell the difference.
//
// What is not real: no process runs, so nothing is restarted, probed, logged or measured,
// no SSH service answers and no file of a volume is made. The agents of one job share a
// key, where real ones have one each. They look at their files at Options.Look, and do not
// watch them. What a container does is taken from its command: see Behave.
//
// Latencies and failures come from a seed: the nth job, and the nth call of each kind,
// always get the same. Failures can be brought about by hand as well (failures.go). How
// goroutines interleave is not in the seed.
//
// The simulator may be in a process of its own: Serve gives it a socket, and Client is the
// wlm.Manager at its other end. It must run as the user that the jobs are of.
package simulator
