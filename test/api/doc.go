// Package api tests the CRDs on a real API server: the defaults it fills in, the
// objects it refuses and in which words, what may change after creation, what
// kubectl shows, and that objects of KEP-2170's version are served. No
// controller and no webhook runs here: whatever is refused, the schema refuses.
package api
