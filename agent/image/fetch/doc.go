// Package fetch is the work of pulling an image, as one job with a beginning and an end:
// ask what a name stands for, or bring an image into a directory, as an OCI layout or as
// a tree.
//
// A job runs in this process or, so that an agent stays small and its pods undisturbed,
// in a process of its own (Main): the job comes on its standard input, secrets too, and
// progress and result go out on its standard output. It ends when its input ends, so it
// never outlives who asked.
package fetch
