// Package rendezvous knows the environment variables by which frameworks tell the
// processes of a gang where to meet: a host of the gang, and as a rule a port there.
// On HPC nodes both may have to be others than those that are written: pods have
// their node's ports, which other gangs want too, and without a private root the
// pods' names mean nothing to the system.
//
// The package finds and replaces. By what, others decide: the node moves ports when
// it makes orders, the agent turns names into addresses when it starts a process.
package rendezvous
