// Command devcluster runs a real Kubernetes control plane for development and tests, without containers or root.
//
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, the JobSet controller and kubectl are built from
// their Go modules into this one program, which starts itself again once per component. The components are the
// unmodified ones, so what is seen here is what a cluster does: only the kubelets are missing, and those are what
// the tests bring.
//
// It is a module of its own because it needs replace directives for k8s.io/kubernetes and some 2,600 packages that
// the product must not depend on.
//
// It must not grow features of the product. It keeps no state outside the folder given by --dir.
package main
