// Package v1alpha1 holds config.trainer.kubeflow.org/v1alpha1, the controller's
// configuration file, with the fields of Kubeflow Trainer v2.3, so that a file
// written for that controller works here. It has data only: defaults and
// validation are package controller/config's.
package v1alpha1
