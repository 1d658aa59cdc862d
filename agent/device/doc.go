// Package device keeps a pod to the devices of its slot. A workload manager says in
// variables such as CUDA_VISIBLE_DEVICES which devices a task may use; these
// reach every process of the pod, and what a pod itself asks for is taken from
// among them.
//
// The variables are advice that the vendors' libraries follow. What keeps a
// program that ignores them from other devices is the site's: Slurm's
// ConstrainDevices. The package is pure; it looks at no device.
package device
