// Package plugin is kubectl-gangline: gangs as their users see them. Each command is a file.
//
// It reads with the rights of the user who calls it, in his namespaces: pods and their logs,
// Events, JobSets and TrainJobs. What he may not read is named, and the rest is shown. It
// changes nothing, and knows the HPC side only by what the virtual node writes on the pods
// (docs/annotations.md). What pods mean is in package gangs, why they are so in package
// explain; this package reads and prints.
package plugin
