// Package compat proves that our API types and those of Kubeflow Trainer v2.3
// are the same on the wire: each has every path of the other, of the same kind
// and with the same tags, and objects survive the way through the other's types.
//
// It is a module of its own, so that the product does not depend on Kubeflow
// Trainer, and imports nothing of it but the API types. The Kubernetes version
// is that of the product.
package compat
