// Package controller holds the TrainJob controller in the packages below it: the
// API types of Kubeflow Trainer v2 (api), admission (webhook), the pipeline
// (framework, pipeline, plugins) that turns a TrainJob and its runtime into
// objects, and the reconciler that writes them (reconcile). They use package mpi
// for formats and translate/wellknown for names, and know nothing else of the HPC
// side: a TrainJob goes there by a node selector.
package controller
