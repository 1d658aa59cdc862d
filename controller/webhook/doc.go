// Package webhook is admission: it stamps the patches of TrainJobs with the time
// of their last change, refuses TrainJobs that could not be built, and runtimes
// that break Kubeflow Trainer's rules, and warns of those that will not work. The
// paths, rules and texts are those of Kubeflow Trainer v2.3.
//
// The rules about TrainJobs are the pipeline's: this package finds the runtime
// and asks. It writes nothing, and needs the webhook configurations to have
// matchPolicy Equivalent (the default), so that v2alpha1 objects arrive as
// v1alpha1.
package webhook
