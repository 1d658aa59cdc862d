package slurm

// SystemPath is the search path of a job, after the directory of Slurm's own tools.
const SystemPath = "/usr/local/bin:/usr/bin:/bin"
