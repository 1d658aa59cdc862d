// Package flux starts a Flux instance in the training pods and the TrainJob's
// command inside it, as Kubeflow Trainer's policy flux does: an init container
// brings Flux along, a ConfigMap the two scripts that set it up, a Secret the
// key that the brokers share.
//
// Names, mounts and volumes are Kubeflow's. The scripts are our own: they run
// the command word for word, and the pods end with its exit status.
//
// On the HPC side the instance is a native one: its brokers are the HPC nodes' own
// Flux, one for each slot of the gang, whatever workload manager gave the slots. They
// meet by Flux' static bootstrap (flux-config-bootstrap(5)) with a CURVE key, so
// they need no PMI, and pods may share a node. No image is pulled there.
//
// A Flux that manages the whole HPC centre is no business of this package.
package flux
