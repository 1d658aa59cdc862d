package mpi

// Var is one environment variable.
type Var struct {
	Name, Value string
}

// Paths are the files that the launchers are pointed to, as a pod sees them.
// They hold neither blanks nor colons, which Open MPI would split them at.
type Paths struct {
	// RemoteShell is the program that stands in for ssh. It has the same path
	// in every pod, because Open MPI launches in a tree: remote daemons start
	// further ones.
	RemoteShell string
	// Hostfile and HydraHostfile are empty for a pod that no launcher needs to
	// leave; then mpirun uses the pod's own cores.
	Hostfile      string
	HydraHostfile string
}

// foreign are the allocators of Open MPI and PRRTE that read a workload manager's
// variables; a name that a version does not know is no error in a list of
// exclusions. Without them the hostfile alone says what there is.
const foreign = "^slurm,tm,pbs,lsf,gridengine,alps,loadleveler,flux"

// Env is the environment that makes mpirun and mpiexec start their daemons
// through the gang's remote shell, on the gang's hosts, whatever their
// implementation and whatever job they run in. The order is fixed.
//
// Each generation is set in full. Open MPI 5 hands its launch to PRRTE, which
// reads PRTE_MCA_*; of OMPI_MCA_* it takes what it likes, and without the
// default hostfile it runs on one host without a word.
//
// The allocators go together with plm: where SLURM_* variables are left in the
// environment, one without the other reaches for the job's nodes by name.
//
// Pods that share an HPC node share its address, and every launcher takes a
// host whose name resolves to an address of its own for itself: it would start
// that pod's ranks in its own pod, without the other's devices, or count the two
// as one. So the launchers are told not to conclude anything from addresses
// (do_not_resolve) and not to fork in place of a remote start (AUTOFORK; not
// without a hostfile, where the only host is the HPC node itself, which the
// remote shell does not know).
//
// MPICH's daemons would start ranks with the launcher's whole environment: its
// devices and its identity, in place of those of the pod that they run in. So
// none of it is carried over (HYDRA_ENV); what a rank needs is in its own pod's,
// and -genv and its like still pass on what is asked for.
//
// Two things such pods need besides, which no variable can give: a host name of
// their own (a UTS namespace), because Open MPI tells the shared memory and the
// session directories of a job's daemons apart by host name alone; and a table of
// names that resolves the launcher's host name everywhere, because MPICH's
// daemons call it back by that.
func Env(p Paths) []Var {
	autofork, carried := "0", "none"
	if p.HydraHostfile == "" {
		autofork, carried = "", ""
	}
	all := []Var{
		// Open MPI up to 4.
		{"OMPI_MCA_plm", "rsh"},
		{"OMPI_MCA_ras", foreign},
		{"OMPI_MCA_plm_rsh_agent", p.RemoteShell},
		{"OMPI_MCA_orte_default_hostfile", p.Hostfile},
		{"OMPI_MCA_orte_keep_fqdn_hostnames", "true"},
		{"OMPI_MCA_if_base_do_not_resolve", "true"},
		// Open MPI 5 and later (PRRTE).
		{"PRTE_MCA_plm", "ssh"},
		{"PRTE_MCA_ras", foreign},
		{"PRTE_MCA_plm_ssh_agent", p.RemoteShell},
		{"PRTE_MCA_prte_default_hostfile", p.Hostfile},
		{"PRTE_MCA_prte_keep_fqdn_hostnames", "true"},
		{"PRTE_MCA_prte_do_not_resolve", "true"},
		// MPICH.
		{"HYDRA_LAUNCHER", "ssh"},
		{"HYDRA_LAUNCHER_EXEC", p.RemoteShell},
		{"HYDRA_LAUNCHER_AUTOFORK", autofork},
		{"HYDRA_HOST_FILE", p.HydraHostfile},
		{"HYDRA_ENV", carried},
		// Intel MPI.
		{"I_MPI_HYDRA_BOOTSTRAP", "ssh"},
		{"I_MPI_HYDRA_BOOTSTRAP_EXEC", p.RemoteShell},
		{"I_MPI_HYDRA_BOOTSTRAP_AUTOFORK", autofork},
		{"I_MPI_HYDRA_HOST_FILE", p.HydraHostfile},
		// pdsh, and so DeepSpeed: Debian's would take rsh.
		{"PDSH_RCMD_TYPE", "ssh"},
	}
	set := all[:0]
	for _, v := range all {
		if v.Value != "" {
			set = append(set, v)
		}
	}
	return set
}

// EnvOnSharedNode is what ranks need besides in pods that share their node with
// others of the gang. To UCX (of MPICH, and of Open MPI where there is InfiniBand)
// they are one machine. But each pod has a user namespace of its own, across which
// the kernel lets no process open another's files in /proc or read its memory, as
// UCX's transports posix and cma do. It has others: System V's shared memory.
func EnvOnSharedNode() []Var { return []Var{{"UCX_TLS", "^posix,cma"}} }
