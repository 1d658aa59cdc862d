// Package flux makes a Flux instance a wlm.Manager, by way of the bindings in the package
// of the same name at the module's root.
//
// A gang is one job of as many slots as it has tasks, each of which runs an agent: Flux's
// shell starts them all, so nothing has to be launched from inside. What each of Flux's
// states, results and exceptions means is a table; so is what of a gang's wishes Flux
// knows. What it does not know is refused, never left out.
//
// Jobs are those of the user that the process runs as. The package holds a connection,
// opened anew after it was lost, what it watches, and no other state; which jobs are a
// gang's, and whether to submit again, is the caller's to know.
package flux
