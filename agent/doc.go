// Package agent is the process that an allocation starts for each of its tasks:
// a small kubelet that takes its orders from the spool and runs pods as plain
// processes of the user.
//
// An agent serves the slots that gang.json lists for its task. For each slot it
// opens an SSH service, reports itself in status.json, and then follows
// desired.json: it opens the sealed orders of a pod, lays out its volumes, waits
// until the gang's table of names is complete, and runs the containers until
// they end or are to be stopped. A pod is never run twice.
//
// One goroutine owns all state of a slot (see slot.run); whatever else happens,
// in containers, sessions and files, reaches it as a message. What is to be done
// with containers is decided in package lifecycle, how a process gets the pod's
// files in package sandbox, who reaps it in package process, how images are run in
// package container and where they come from in package image.
//
// The agent knows the spool and the node it runs on. It must not speak to an API
// server, and writes no secret anywhere but to memory. Of the workload manager it
// knows the command that starts a step (StepStarter), for launchers in its pod
// that ask for one; the step's processes then ask the agents of their slots to
// start the ranks (see package control).
//
// It follows Kubernetes' Pod Lifecycle
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/).
package agent
