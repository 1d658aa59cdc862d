package mpi

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/translate/wellknown"
)

// Where the launcher finds the hostfile.
const (
	hostfileDir  = "/etc/mpi"
	hostfileName = "hostfile"
	hostfilePath = hostfileDir + "/" + hostfileName
)

// sshArgs make ssh try again while a node's host name does not resolve yet.
const sshArgs = "-o ConnectionAttempts=10"

// implementation is what differs between the implementations of MPI.
type implementation struct {
	hostfile func([]mpi.Host) string
	// env is the launcher's, for a number of processes of each node. TrainJobs
	// must not set its names.
	env func(procs int32) []corev1.EnvVar
	// clusterEnv is added for jobs of the HPC side; nil for nothing.
	clusterEnv func(procs int32) []corev1.EnvVar
}

// implementations have Open MPI's variables from Kubeflow Trainer v2.3, and
// MPICH's and Intel's from mpi-operator's MPIJob v2beta1. It is never changed.
var implementations = map[v1alpha1.MPIImplementation]implementation{
	v1alpha1.MPIImplementationOpenMPI: {
		hostfile: mpi.OpenMPIHostfile,
		env: func(procs int32) []corev1.EnvVar {
			return []corev1.EnvVar{
				{Name: "OMPI_MCA_orte_default_hostfile", Value: hostfilePath},
				{Name: "OMPI_MCA_orte_keep_fqdn_hostnames", Value: "true"},
				{Name: "OMPI_MCA_orte_set_default_slots", Value: decimal(procs)},
				{Name: "OMPI_MCA_plm_rsh_args", Value: sshArgs},
			}
		},
		// Open MPI 5 launches by PRRTE, which does not know the names above. A
		// site's Open MPI is often newer than an image's.
		clusterEnv: func(procs int32) []corev1.EnvVar {
			return []corev1.EnvVar{
				{Name: "PRTE_MCA_prte_default_hostfile", Value: hostfilePath},
				{Name: "PRTE_MCA_prte_keep_fqdn_hostnames", Value: "true"},
				{Name: "PRTE_MCA_prte_set_default_slots", Value: decimal(procs)},
				{Name: "PRTE_MCA_plm_ssh_args", Value: sshArgs},
			}
		},
	},
	v1alpha1.MPIImplementationMPICH: {
		hostfile: mpi.HydraHostfile,
		// MPIJob has the name that Hydra read long ago; the second one is what
		// it reads now.
		env: func(int32) []corev1.EnvVar {
			return []corev1.EnvVar{
				{Name: "HYDRA_HOST_FILE", Value: hostfilePath},
				{Name: "HYDRA_LAUNCH_EXTRA_ARGS", Value: sshArgs},
				{Name: "HYDRA_LAUNCHER_EXTRA_ARGS", Value: sshArgs},
			}
		},
	},
	v1alpha1.MPIImplementationIntel: {
		hostfile: mpi.HydraHostfile,
		env: func(procs int32) []corev1.EnvVar {
			return []corev1.EnvVar{
				{Name: "I_MPI_HYDRA_HOST_FILE", Value: hostfilePath},
				{Name: "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", Value: sshArgs},
				{Name: "I_MPI_PERHOST", Value: decimal(procs)},
			}
		},
	},
}

// implementationOf is the one that the TrainJob's annotation names, or else the runtime's
// annotation, or else the runtime's policy; Open MPI if none does.
func implementationOf(info *framework.Info, trainJob *v1alpha1.TrainJob) (implementation, error) {
	const annotation = "annotation " + wellknown.AnnotationMPIImplementation
	of, name := "the runtime's mpiImplementation", cmp.Or(ptr.Deref(info.MLPolicy.MPI.MPIImplementation, ""), v1alpha1.MPIImplementationOpenMPI)
	if a := annotated(info.RuntimeMeta.Annotations); a != "" {
		of, name = "the runtime's "+annotation, a
	}
	if a := annotated(trainJob.Annotations); a != "" {
		of, name = "the TrainJob's "+annotation, a
	}
	impl, known := implementations[name]
	if !known {
		return implementation{}, fmt.Errorf("%s %q is not known: it must be OpenMPI, MPICH or Intel", of, name)
	}
	return impl, nil
}

// annotated is the name in annotations.
func annotated(annotations map[string]string) v1alpha1.MPIImplementation {
	return v1alpha1.MPIImplementation(annotations[wellknown.AnnotationMPIImplementation])
}

// launcherEnv is all that the launcher of a job gets.
func (i implementation) launcherEnv(procs int32, cluster string) []corev1.EnvVar {
	env := i.env(procs)
	if cluster != "" && i.clusterEnv != nil {
		env = append(env, i.clusterEnv(procs)...)
	}
	return env
}

func decimal(n int32) string { return strconv.Itoa(int(n)) }
