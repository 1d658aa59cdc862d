// Package probe decides what the tries of a container's probe mean: when the
// next one is due, and when enough of them have come out the same way. It
// follows kubelet (k8s.io/kubernetes, pkg/kubelet/prober/worker.go).
//
// The package tries nothing and reads no clock: package handler makes the tries,
// package lifecycle draws the conclusions.
package probe
