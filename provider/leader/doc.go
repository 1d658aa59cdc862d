// Package leader lets one of several processes of a virtual node act while the others
// stand by. They compete for a Lease of Kubernetes'. It knows nothing of what a leader does.
//
// A Lease is no fence: a leader that was frozen and wakes up may act for a moment beside its
// successor. What must not happen twice is guarded elsewhere (a job's claim in the spool, the
// resource versions of Kubernetes' objects).
package leader
