// Package fluxtest is a double of a Flux instance, for tests where there is no Flux: a
// broker that real processes connect to, and a libflux-core to connect with.
//
// The Broker speaks the wire protocol of Flux's local connector (RFC 3), which a real
// libflux-core speaks with it as well. It has nodes that are names, schedules slots on
// them first come first served, runs a job's tasks as real child processes, and keeps
// the events that Flux keeps (RFC 21). Library compiles the library: the few functions
// that package flux calls, in C, written from their manual pages.
//
// What it is not: it has one user, no batch jobs or instances in jobs, no KVS, no PMI, no
// files in jobspecs, no binding to cores, and none of a scheduler's cleverness. What it
// does not know it refuses. What it shows of Flux is what real Flux was seen to do;
// package flux's tests run against both, where there is a real one.
package fluxtest
