// Package image brings images to the HPC side: out of registries into a store on the
// shared filesystem, once for each digest and form, however many agents ask.
//
// It must not run anything of an image, and it knows no pods: who asks, with which
// secrets, and what becomes of an error is its caller's affair.
//
// The words that users see (reasons, events) are kubelet's: pkg/kubelet/images. Which
// secret fits which image is decided as in its pkg/credentialprovider.
package image
