// Package metrics counts and times what the virtual node does, for Prometheus. All of
// gangline-node's own metrics are made here; docs/observability.md lists them from this
// code.
//
// A metric's labels have few values, which the code knows beforehand: none is a pod's, a
// gang's, a user's or a job's name, nor anything else that a user has written.
//
// The package decides nothing, and nothing is decided by what it holds. A nil *Process or
// *Node counts nothing, so whoever counts need not know whether anybody looks.
package metrics
