// Package provider is the virtual node: it takes the pods that the scheduler
// binds to it, gathers them into gangs, asks the workload manager for one
// allocation per gang, hands each slot's agent its pod, and tells the API
// server what becomes of them.
//
// It is level-triggered. One reconciliation looks at one gang: gather what the
// API server, the workload manager and the spool say (state.go), decide in
// memory (form.go, bind.go, release.go), then act (submit.go, order.go) and
// write what has changed of each pod (podstatus.go). There is no database
// and nothing lives only in memory: a provider that starts anew rebuilds what
// it knows from those three.
//
// It must not know how Slurm, Flux or the local workload manager work (package
// wlm hides them), nor how a pod's process is run (package agent).
package provider
