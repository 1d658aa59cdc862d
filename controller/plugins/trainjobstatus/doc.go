// Package trainjobstatus gives training pods what they need to report their
// progress: the status server's URL, a token for it, and the authority that its
// certificate is checked by. It is a plugin of the feature gate TrainJobStatus;
// package statusserver takes the reports.
package trainjobstatus
