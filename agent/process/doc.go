// Package process starts processes, reaps every process that falls to this one
// and finds those that hid.
//
// A pod's process may start others that leave its process group, outlive it and
// so lose every tie to it. Three things find them all the same: this process is
// their reaper (PR_SET_CHILD_SUBREAPER, see prctl(2)), so an orphan becomes its
// child; each carries a cookie in its environment; and what carries none is
// still a descendant (see KillDescendants).
//
// A Table reaps with wait4(-1): nothing else in the program may wait for
// children, os/exec included.
//
// The package knows nothing of pods or containers.
package process
