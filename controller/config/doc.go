// Package config reads the controller's configuration file, fills in the
// defaults of Kubeflow Trainer v2.3 and refuses what is not valid. It starts
// nothing: package controller/manager acts on what it returns.
package config
