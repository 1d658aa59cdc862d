package translate

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/spool"
)

// Where the agent and the gang's hostfiles stand in each pod.
const (
	privateDir  = "/run/gangline"
	remoteShell = privateDir + "/bin/ssh"

	mpiDir        = "/etc/mpi" // where Kubeflow's runtimes have it
	hostfile      = "hostfile"
	hydraHostfile = "hostfile.hydra"

	// mpiVolumeName can't be a pod's: it has a dot.
	mpiVolumeName = "gangline.mpi"
)

// Components are, for each slot, the number of the heterogeneous job's component
// that holds it: the group of its task, and a rider's that of slot 0.
func (g Gang) Components() []int {
	var ofTask []int
	for i, group := range g.TaskGroups() {
		for range group.Tasks {
			ofTask = append(ofTask, i)
		}
	}
	components := make([]int, len(g.Slots))
	for task, slots := range g.Tasks() {
		for _, k := range slots {
			components[k] = ofTask[task]
		}
	}
	return components
}

// mpiVolume holds the gang's hostfiles.
func (r *resolver) mpiVolume() (spool.Volume, bool) {
	if len(r.in.Hosts) == 0 {
		return spool.Volume{}, false
	}
	return spool.Volume{Name: mpiVolumeName, Files: []spool.File{
		{Path: hostfile, Mode: 0o444, Data: []byte(mpi.OpenMPIHostfile(r.in.Hosts))},
		{Path: hydraHostfile, Mode: 0o444, Data: []byte(mpi.HydraHostfile(r.in.Hosts))},
	}}, true
}

// mpiMount puts the hostfiles at their place, unless the container mounts
// something there itself: at it, in it, or over it.
func (r *resolver) mpiMount(mounts []spool.Mount) (spool.Mount, bool) {
	taken := slices.ContainsFunc(mounts, func(m spool.Mount) bool {
		return within(mpiDir, m.Path) || within(m.Path, mpiDir)
	})
	if taken || len(r.in.Hosts) == 0 {
		return spool.Mount{}, false
	}
	return spool.Mount{Volume: mpiVolumeName, Path: mpiDir, ReadOnly: true}, true
}

// mpiVars point the MPI launchers to the gang's remote shell, and to those
// hostfiles that the container has, be they ours or the pod's own.
func (r *resolver) mpiVars(mounts []spool.Mount) []corev1.EnvVar {
	paths := mpi.Paths{RemoteShell: remoteShell}
	if p := path.Join(mpiDir, hostfile); r.hasFile(mounts, p) {
		paths.Hostfile = p
	}
	if p := path.Join(mpiDir, hydraHostfile); r.hasFile(mounts, p) {
		paths.HydraHostfile = p
	}
	var vars []corev1.EnvVar
	for _, v := range mpi.Env(paths) {
		vars = append(vars, corev1.EnvVar{Name: v.Name, Value: v.Value})
	}
	return vars
}

// hasFile tells whether the mounts, parents first, are known to put a file at
// the path: the last one over it decides.
func (r *resolver) hasFile(mounts []spool.Mount, p string) bool {
	has := false
	for _, m := range mounts {
		if !within(m.Path, p) {
			continue
		}
		inVolume := path.Join(m.SubPath, strings.TrimPrefix(strings.TrimPrefix(p, m.Path), "/"))
		has = m.Path == p || slices.ContainsFunc(r.volumes, func(v spool.Volume) bool {
			return v.Name == m.Volume && slices.ContainsFunc(v.Files, func(f spool.File) bool { return f.Path == inVolume })
		})
	}
	return has
}
