// Package translate turns one world's words into the other's, by pure
// functions: owners and pods into gangs and slots, a gang into an allocation
// request, a request into a workload manager's arguments, a pod into its
// agent's orders, and what agents and workload managers report into a pod's
// status.
//
// It reads no clock, no file and no network: everything comes in as an
// argument, so every rule is a table in a test.
package translate
