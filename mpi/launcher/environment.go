package launcher

import (
	"slices"
	"strings"
)

func nameOf(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func hasPrefix(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// ofThePod are the variables that belong to each pod: who it is, where its files
// and devices are, and how its launchers start others. "All variables" of one
// pod's launcher do not overwrite them in another.
func ofThePod() []string {
	return []string{
		"GANGLINE_", "HOSTNAME=", "PATH=", "HOME=", "PWD=", "OLDPWD=", "SHLVL=", "_=",
		"CUDA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL=", "HIP_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK=",
		"SLURM_", "PMI_", "PMIX_",
	}
}

// ownVariables are those of a launcher that its ranks can be given.
func ownVariables(own []string) []string {
	var env []string
	for _, entry := range own {
		if !hasPrefix(entry, ofThePod()) {
			env = append(env, entry)
		}
	}
	return env
}

// Inherited are the launcher's variables that ranks get unasked: Open MPI's
// parameters, which its own mpirun passes on too, but for those about starting.
func Inherited(own []string) []string {
	var env []string
	for _, entry := range own {
		parameter, ok := strings.CutPrefix(entry, "OMPI_MCA_")
		if ok && !hasPrefix(parameter, launchParameters()) {
			env = append(env, entry)
		}
	}
	return env
}

// ForSharedNodes are variables of ranks whose step has several pods on a node. To
// MPI these are one host. But each pod has a user namespace of its own, across
// which the kernel lets no process read another's memory: Open MPI 4 warns of
// that, and may crash when it finds out late. Ranks then copy through shared
// memory.
func ForSharedNodes(ranks []Rank) []string {
	slots := map[string]int{}
	for _, r := range ranks {
		if slot, known := slots[r.Pod.Node]; known && slot != r.Pod.Slot {
			return []string{"OMPI_MCA_btl_vader_single_copy_mechanism=none"}
		}
		slots[r.Pod.Node] = r.Pod.Slot
	}
	return nil
}

// RankVariables are the variables that the workload manager gives each rank and
// the rank is to see: who it is, and where it finds its peers. The others of the
// process that it starts are not the pod's.
func RankVariables(given []string) []string {
	var env []string
	for _, entry := range given {
		if hasPrefix(entry, []string{"SLURM_", "SLURMD_NODENAME=", "PMI_", "PMI2_", "PMIX_", "PMIX_MCA_", "SPMIX_"}) {
			env = append(env, entry)
		}
	}
	return env
}

// WithoutManager is an environment for the workload manager's own commands:
// without what describes the job and the task that they are called from, which
// would stand in for options that are not given.
func WithoutManager(env []string) []string {
	var kept []string
	for _, entry := range env {
		switch {
		case hasPrefix(entry, []string{"SLURM_CONF=", "SLURM_CONF_SERVER="}):
		case hasPrefix(entry, []string{"SLURM", "SRUN_", "SBATCH_", "PMI_", "PMI2_", "PMIX_", "OMPI_", "GANGLINE_", "CUDA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL=", "ROCR_VISIBLE_DEVICES=", "ZE_AFFINITY_MASK="}):
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// Override adds entries to an environment, of which each replaces those of its
// name: where a name is given twice, programs do not agree on which one counts.
func Override(env []string, more ...[]string) []string {
	out := slices.Clone(env)
	for _, entries := range more {
		for _, e := range entries {
			name := nameOf(e)
			out = slices.DeleteFunc(out, func(old string) bool { return nameOf(old) == name })
			out = append(out, e)
		}
	}
	return out
}
