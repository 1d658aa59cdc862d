// Package pipeline runs the plugins over one TrainJob: it merges the job's
// patches into the runtime's template, then calls every plugin of a phase in the
// order of the list it was made with. The order of the phases is KEP-2170's.
//
// It reads and writes nothing: the runtime comes in, components come out.
package pipeline
