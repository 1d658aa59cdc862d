// Package handler carries out what probes and lifecycle hooks name: a command, a
// request, a connection, a pause. It follows kubelet (k8s.io/kubernetes,
// pkg/probe and pkg/kubelet/lifecycle), so that a program which passes there
// passes here.
//
// The package decides nothing: what a result means is up to package probe, and
// when to ask up to package lifecycle.
package handler
