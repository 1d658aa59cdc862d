// Package cli makes Slurm a wlm.Manager by its command line tools: sbatch, squeue,
// scancel, sinfo and, for jobs that slurmctld has forgotten, sacct, as described in
// their manuals of Slurm 22.05 and later.
//
// The tools run at a site, near or far, as the user whose job it is (see packages site
// and sites), with an environment of their own. Their exit status and their
// machine-readable output are all that is judged; what sites print on stderr beside
// them is not, but for the word that a user is not known, whose jobs are left out then. A tool that fails teaches nothing: there is no way from a failed query
// to an empty list.
//
// The package touches no file and starts no process by itself, and decides nothing: which
// jobs are a gang's, whose they are, and whether to submit again, is the caller's to know.
package cli
