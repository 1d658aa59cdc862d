// Package torch prepares training nodes for torchrun, which takes its options
// from PET_ variables, and for torchtune, which wants its rendezvous, recipe and
// configuration on the command line. It follows Kubeflow Trainer's policy torch:
// no elasticity, and no rendezvous back end but torchrun's own.
//
// A command is torchtune's if the TrainJob's is exactly "tune run"; the
// runtime's does not count.
package torch
