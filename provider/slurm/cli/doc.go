// Package cli makes Slurm a wlm.Manager by its command line tools: sbatch, squeue,
// scancel, sinfo and, for jobs that slurmctld has forgotten, sacct, as described in
// their manuals of Slurm 22.05 and later.
//
// The tools run as children with an environment of their own. Their exit status
// and their machine-readable output are all that is judged; what sites print on
// stderr beside them is not. A tool that fails teaches nothing: there is no way
// from a failed query to an empty list.
//
// The package holds no state and decides nothing: which jobs are a gang's, and
// whether to submit again, is the caller's to know.
package cli
