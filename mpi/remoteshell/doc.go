// Package remoteshell is the ssh command inside a gang's pods. mpirun, Hydra,
// pdsh, DeepSpeed and people call it as they call OpenSSH's; it finds the host in
// the gang's table of names, so that pods which share an HPC node are told apart,
// and opens it with the gang's key. "localhost" is the pod that it is called in,
// unless a port is given.
//
// It reads files that the agent wrote (WriteFiles) and nothing of the user's: no
// ~/.ssh, no known_hosts, no agent. It serves the hosts of the gang alone; for any
// other it steps aside for the real ssh, so that git and the like go on working,
// and for what it does not do itself (-L, -D, -N, …) as well. For the real ssh, scp
// and sftp there is an ssh_config among the files.
//
// The command line follows ssh(1), ssh_config(5). One process is started per
// rank or host, so it starts fast and imports little.
package remoteshell
