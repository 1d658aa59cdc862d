// Package shell runs a command in a pod, as a user at a terminal or with pipes: by the API
// server's exec, as kubectl exec does. It does not choose the pod.
package shell
