package launch

import (
	"fmt"
	"strconv"
)

// srunArgs are srun's arguments for one agent in each task of the job that the
// environment belongs to; see srun(1). A job with several groups is a
// heterogeneous one, whose step has a part for each.
//
// What they are for:
//   - the tasks are started as the job has them, in rank order, each with its
//     CPUs and GPUs. srun does not take the CPUs per task from the job (since
//     Slurm 22.05), and binds GPUs to tasks only where it is told how many;
//   - a gang is all or nothing: an agent that fails ends all, and one that has
//     done its work (--wait=0) none;
//   - an agent is no MPI rank, and reads nothing.
func srunArgs(env func(string) string, tasks, groups int, self, dir string) []string {
	if groups <= 1 {
		return append(groupArgs(env, "", strconv.Itoa(tasks)), self, "serve", dir)
	}
	var args []string
	for g := range groups {
		if g > 0 {
			args = append(args, ":")
		}
		suffix := fmt.Sprintf("_HET_GROUP_%d", g)
		args = append(args, fmt.Sprintf("--het-group=%d", g))
		args = append(args, groupArgs(env, suffix, env("SLURM_NTASKS"+suffix))...)
		args = append(args, self, "serve", dir)
	}
	return args
}

// groupArgs are the options of one component of the job, whose variables have
// the suffix.
func groupArgs(env func(string) string, suffix, tasks string) []string {
	var args []string
	for _, o := range []struct{ option, value string }{
		{"--ntasks", tasks},
		{"--cpus-per-task", env("SLURM_CPUS_PER_TASK" + suffix)},
		{"--gpus-per-task", env("SLURM_GPUS_PER_TASK" + suffix)},
	} {
		if o.value != "" {
			args = append(args, o.option+"="+o.value)
		}
	}
	return append(args,
		"--distribution=block",
		"--kill-on-bad-exit=1",
		"--wait=0",
		"--mpi=none",
		"--input=none",
		"--export=ALL",
	)
}
