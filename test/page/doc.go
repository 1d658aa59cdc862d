// Command pagecheck opens the node's web page in headless Chromium, does what a person
// would, and prints what it saw as JSON: for the end-to-end tests, which judge it. It is a
// module of its own, so that nothing else depends on a browser's protocol.
package main
