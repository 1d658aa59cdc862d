// Package lifecycle decides what a pod's containers do next: in which order they
// start, whether one that ended starts again and when, how a stop proceeds. It
// follows kubelet (k8s.io/kubernetes, pkg/kubelet/kuberuntime): init containers
// one after the other, sidecars beside them, main containers together, back-off
// for what fails again and again, hooks at a container's start and end, probes
// that make a container ready or end it.
//
// The package starts nothing and reads no clock: a Pod is told what happened and
// at what time, and answers with what is to be done.
package lifecycle
