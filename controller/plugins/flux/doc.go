// Package flux starts a Flux instance in the training pods and the TrainJob's
// command inside it, as Kubeflow Trainer's policy flux does: an init container
// brings Flux along, a ConfigMap the two scripts that set it up, a Secret the
// key that the brokers share.
//
// Names, mounts and volumes are Kubeflow's. The scripts are our own: they run
// the command word for word, and the pods end with its exit status. The instance
// is one inside the pods, also on the HPC side, where the program comes from the
// nodes themselves: no image is pulled there. A Flux that manages the whole HPC
// centre is no business of this package.
package flux
