// Package daemon is the sshd command inside pods. Kubeflow's MPI runtimes and
// MPIJobs have workers whose command is OpenSSH's sshd with the configuration, host
// keys and user of an image. An HPC node has none of these, so the agent's own
// program runs under that name: a process of the pod like any other, which serves
// on the port that its configuration names, with the keys that are mounted in the
// pod and the gang's own.
//
// The gang's own ssh does not come this way: it goes to the SSH service that each
// slot has anyway. This one is for clients that know a port, as a launcher outside
// of the HPC side does, and for probes.
//
// It reads the command line of sshd(8) and, of sshd_config(5), where to listen and
// which keys to use. Whatever else these say means nothing here: there is one user,
// no privilege and no login. It must not read the HPC node's own configuration.
package daemon
