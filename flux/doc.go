// Package flux speaks to a Flux instance: it submits jobs, follows their events and
// their output, waits for their ends, ends them, lists them, and tells which resources
// there are. It is made on libflux-core, Flux's own C library.
//
// The library is found when Open is called, by dlopen: neither building a program with
// this package nor starting it needs anything of Flux. Where the library is missing, or
// the program was built without cgo, Open says so with ErrUnavailable.
//
// A Handle may be used by any number of goroutines. Each of its calls ends when its
// context does, and when the broker is lost (ErrLost): a handle is not connected again,
// open another one. Calls of several goroutines are pipelined on one connection.
//
// Every error that Flux itself answered is an *Error with Flux's own words and its errno,
// which errors.Is knows: errors.Is(err, syscall.ENOENT).
//
// What is written here follows Flux's RFCs (https://flux-framework.readthedocs.io/projects/flux-rfc):
// 14 and 25 the jobspec, 18 eventlogs, 19 job ids, 20 resource sets, 21 jobs' states and
// events, 24 output, 31 constraints; and the RPCs that flux-core's own Python bindings use.
//
// The package must know nothing of Kubernetes or of gangs: those are its importers'.
package flux
