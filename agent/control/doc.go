// Package control is how programs on an HPC node ask a slot's agent for
// something: a launcher inside the pod for a step, and a process of that step for
// its rank to be started in the pod; or tell it something. They speak over a Unix socket of the node
// and hand over their own files, so a rank reads and writes as directly as if the
// workload manager had started it.
//
// The socket has a name and no path (unix(7), "abstract"), because a private root
// has other paths than the node. The name is new for each agent, and both sides
// make sure that the other is the same user.
//
// The package carries requests. It knows nothing of how they are granted.
package control
