// Package keyring decides which of a pod's registry credentials fit an image, by
// kubelet's rules (k8s.io/kubernetes, pkg/credentialprovider/keyring.go): by host, with
// wildcards in its labels, by port, and by the beginning of the path; the most specific
// first.
//
// It contacts nobody, and its errors never hold what they could not read: it may be a
// secret.
package keyring
