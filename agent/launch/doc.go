// Package launch is what an allocation runs first, once, on its first node: it
// takes the gang's claim, has the workload manager start an agent in each task,
// and reports how they ended.
//
// The claim is what makes submission safe: a job that was submitted twice, or
// that the workload manager starts again, runs nothing.
//
// Where the workload manager starts the agents itself, as Flux does, there is no
// launcher, and each task ends as Task says.
//
// The package must not look at pods but for how they ended: that is the agents'.
package launch
