// Package statusserver takes the reports that trainings make of themselves and
// writes them as their TrainJobs' status.trainerStatus: the server of Kubeflow
// Trainer's feature gate TrainJobStatus (KEP-2779), with the same URLs, tokens
// and answers.
//
// A report is believed if its bearer token is of a ServiceAccount of the
// TrainJob's namespace and was issued for this one TrainJob's endpoint. What a
// report says is the API server's to validate: the server judges nothing and
// remembers nothing. How pods get URL and token is package trainjobstatus's.
package statusserver
