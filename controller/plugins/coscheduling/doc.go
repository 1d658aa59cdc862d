// Package coscheduling schedules a TrainJob's pods together by a PodGroup of the
// Kubernetes scheduler-plugins. The runtime's author chooses the scheduler, by
// schedulerName in the pod templates.
package coscheduling
