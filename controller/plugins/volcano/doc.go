// Package volcano schedules a TrainJob's pods together by a PodGroup of
// Volcano's. The queue is an annotation of the JobSet, the priority that of the
// pod templates. The runtime's author chooses the scheduler, by schedulerName in
// the pod templates.
package volcano
