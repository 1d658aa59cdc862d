// Package volume makes the directories behind a pod's volumes.
//
// It lays out the files of ConfigMap, Secret, projected and downward API volumes as
// kubelet does (k8s.io/kubernetes, pkg/volume/util, AtomicWriter): the files stand in
// a directory named by the time, ..data is a link to it, and the names that the pod
// sees are links through ..data. So all files of a volume change at once.
//
//	volume/ca.crt                      -> ..data/ca.crt
//	volume/..data                      -> ..2026_03_04_05_06_07.1234
//	volume/..2026_03_04_05_06_07.1234/ca.crt
//
// It finds paths of the HPC node that a pod may mount, and parts of volumes, without
// being led astray by links; and it measures what a directory holds.
//
// The package knows nothing of mounts and of pods.
package volume
