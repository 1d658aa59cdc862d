// Package podcheck asks the API server whether it would take a JobSet's pods, so
// that a user hears of a limit without a request, or a mount without a volume, at
// once, and not from an Event of some other object. It creates nothing: it asks
// by a dry run of a PodTemplate, whose rules are those of pods. PodTemplates do
// nothing, so neither does the right to make them.
package podcheck
