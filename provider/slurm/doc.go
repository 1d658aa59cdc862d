// Package slurm holds what is known of Slurm whichever way it is reached: what each
// of its states and reasons means for a gang, which nodes can be used, how the
// components of a heterogeneous job are one job, and which of its errors are a
// verdict on a job. Its two back ends are the packages below it: cli for Slurm's
// command line tools, rest for slurmrestd.
//
// It is all tables and pure functions. It speaks to nobody, and decides nothing:
// which jobs are a gang's, and whether to submit again, is the caller's to know.
package slurm
