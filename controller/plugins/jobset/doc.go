// Package jobset makes the JobSet, which carries a TrainJob out, from the
// template that all other plugins have prepared: it adds what the TrainJob's own
// sections say, and reads the TrainJob's status off the JobSet. It also refuses
// TrainJobs that do not fit their runtime.
//
// The object is, field by field, what Kubeflow Trainer v2.3 applies. Nothing of
// ours may be added to it here.
package jobset
