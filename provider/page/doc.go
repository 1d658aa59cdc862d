// Package page is a web page to look at one virtual node: its gangs, their place in the
// queue and their history, and the HPC nodes with what they run. It reads only, and shows
// what the node knows already: it asks the API server, the workload manager and the spool
// nothing.
//
// Build turns the node's state into what is shown, without side effects; Handler serves
// it as files, JSON and events. The files are plain HTML, CSS and JavaScript, embedded in
// the program. They name each other by relative paths, so that the page works below any
// prefix, such as kubectl proxy's, and load nothing from elsewhere: the content security
// policy forbids it, and any script or style in the page itself.
package page
