// Package doctor looks at one HPC node as the agent will find it: the private root, the
// directories, the spool, the devices that the workload manager has given, the programs
// that pods may want. It runs by itself ("gangline-agent doctor", Examine), or as the
// work of a job that "gangline-node preflight" submits (Serve): then the doctors of a
// job try each other's SSH service, claims and locks as well, and report in the spool.
//
// It changes nothing but files of its own, which it removes, and runs nothing but
// programs' own answers about their versions. What several nodes say together is judged
// by package preflight.
package doctor
