// Package explain says in plain English why a gang, a pod or a TrainJob is as it is: what it
// waits for and since when, what the workload manager says, what helps, or why it ended. It
// is pure: it is given what its caller could read, and makes do with that.
package explain
