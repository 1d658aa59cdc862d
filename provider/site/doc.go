// Package site is an HPC site as one user of it sees it: files of the spool, the
// workload manager's tools, and connections to the HPC nodes. A provider that acts
// for several users, or from far away, has a Site for each of them.
//
// Local is the site as this process' own user sees it. Package gateway serves a
// Local to another process over a pair of pipes, and its client is a Site too;
// packages near and login start such gateways as another user of this machine, and
// on a login node; package sites holds one for each user. So whatever the way, the same code touches the files and runs
// the tools, as the user whose they are.
//
// An error that is ErrUnreachable has taught nothing: what was asked for may have
// happened or not.
//
// The package knows nothing of Kubernetes, nor of any workload manager's tools. It
// never starts a shell.
package site
