// Package spool holds the files through which the node and the agents speak:
// a directory per allocation on the HPC side's shared filesystem, desired
// state in, observed state and logs out.
//
//	<root>/gangs/<allocation>/         0700, owned by the user the job runs as
//	  gang.json                        slots, names, release; written by the node
//	  job.json                         the workload manager's id; written by the node after submission
//	  claim                            the job that may run this gang; written once, by the first launcher
//	  result.json                      how the launcher ended; written by it
//	  ended.json                       how the allocation ended; written by the node
//	  slots/<k>/desired.json           the pod bound to the slot: run or stop; written by the node
//	  slots/<k>/status.json            what the agent observes; written by the agent
//	  slots/<k>/usage.json             what the pod uses; written by the agent
//	  slots/<k>/logs/<uid>/<container>/<restart>.log   CRI log format, in parts (package agent/crilog)
//
// Every file has one writer and is replaced as a whole (write, rename), so a
// reader sees an old or a new one, never half of one. The files are the truth:
// they survive a restart of either side and need no network.
//
// What a user may keep secret (environment, Secrets, tokens, SSH keys) is only
// ever written encrypted to a key that the slot's agent made in its memory when
// it started (see Seal and Open).
//
// The package knows nothing of Kubernetes' API server, nor of any workload
// manager.
package spool
