// Package preflight checks what a virtual node needs before it runs: the API server and
// the node's rights there, the workload manager and its partitions, the HPC site as each
// user, and the HPC nodes themselves. For these it submits a short job in the way of a
// gang's (same spool, same batch script, same agent), whose agents are doctors (package
// agent/doctor); that also tries the user's account, partition and QOS.
//
// It gathers first and judges afterwards, in pure functions. It changes nothing but what
// its job needs, and takes that away again, however it ends. It takes no lock, so it may
// run beside the node.
package preflight
