// Package kubelet serves the node's own API, the one that kube-apiserver calls
// for kubectl logs, exec, attach and port-forward: authenticated by client certificate
// or token, authorised by the API server (SubjectAccessReview), as kubelet's
// own (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
//
// Logs are read from the spool, so that they are there after the allocation is
// gone. The others go through the slot's SSH service. Spool and agents are reached by
// way of the pod's site alone (Place.Site): they may be behind a login node.
package kubelet
