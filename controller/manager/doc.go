// Package manager wires the controller's process together: client and caches,
// certificates, webhooks, controllers, status server, metrics and probes. It
// holds no rule of TrainJobs: those are the pipeline's, the reconciler's and the
// webhooks'.
//
// The order of a start is: certificates first, then whatever is served with
// them, and the controllers; the process is ready when the webhooks answer.
package manager
